// Splits of a row put together: a workgroup for each head. Each thread finds the factors of some
// splits, then adds up some units of 4 values over all splits. What a thread made last may be left in
// 8 bits, too.

// Loads of a thread that are on their way at once.
const BATCH: u32 = 8u;

// Largest scores and totals of the splits.
var<workgroup> states: array<vec2<f32>, MAX_SPLITS>;
var<workgroup> factors: array<vec2<f32>, MAX_SPLITS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group.x;
    let row = group.y;
    let run = find_run(row);
    let seen = find_seen(row, run.first_pos + row - run.first_row);
    let size = split_size(seen.count);
    let splits = (seen.count + size - 1u) / size;
    // Vectors of a split, and those of its head.
    let stride = HEADS * (UNITS + 1u);
    let first = row * p.splits * stride + head * (UNITS + 1u);
    for (var split = thread; split < splits; split += THREADS) {
        states[split] = parts[first + split * stride + UNITS].xy;
    }
    workgroupBarrier();
    for (var split = thread; split < splits; split += THREADS) {
        var largest = LOWEST;
        for (var before = 0u; before < split; before++) {
            largest = max(largest, states[before].x);
        }
        factors[split] = join_factors(largest, states[split].x);
    }
    workgroupBarrier();
    var total = 0.0;
    for (var split = 0u; split < splits; split++) {
        total = join_total(factors[split], total, states[split].y);
    }
    var result = vec4(0u);
    for (var unit = thread; unit < UNITS; unit += THREADS) {
        var sums = vec4(0.0);
        for (var start = 0u; start < splits; start += BATCH) {
            var next: array<vec4<f32>, BATCH>;
            for (var b = 0u; b < BATCH; b++) {
                next[b] = parts[first + min(start + b, splits - 1u) * stride + unit];
            }
            for (var b = 0u; b < BATCH; b++) {
                if start + b < splits {
                    sums = join_sums(factors[start + b], sums, next[b]);
                }
            }
        }
        for (var c = 0u; c < 4u; c++) {
            let d = 4u * unit + c;
            if d < HEAD {
                let gate = q[((row * HEADS + head) * 2u + 1u) * HEAD + d];
                result[c] = finished(sums[c], total, gate, seen.count);
                o[(row * HEADS + head) * HEAD + d] = result[c];
            }
        }
    }
    leave_codes((row * HEADS + head) * UNITS, thread, bitcast<vec4<f32>>(result));
}
