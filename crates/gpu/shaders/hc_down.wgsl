// Few rows times `down`, stream by stream: a workgroup has GROUPS weight rows, one stream and T
// rows of activations. LANES threads share a weight row; lane i adds the units i, i + LANES, ... of the
// stream, then the lanes are added in order. Streams are weighted by the norm's weights as they
// come to workgroup memory, STAGE units at a time. Workgroups behind the last weight row add up
// what belongs to rows alone.

const GROUPS: u32 = THREADS / LANES;
const PITCH: u32 = STAGE + 1u;

var<workgroup> staged: array<vec4<f32>, T * 8u * PITCH>;
var<workgroup> partials: array<f32, THREADS * T>;

fn staged_input(t: u32, i: u32) -> Input {
    var out: Input;
    for (var k = 0u; k < 8u; k++) {
        out.values[k] = staged[(t * 8u + k) * PITCH + i];
    }
    return out;
}

fn down(block: u32, stream: u32, first_row: u32, count: u32, thread: u32) {
    let lane = thread % LANES;
    let weight = min(block * GROUPS + thread / LANES, p.rank - 1u);
    let first_unit = (weight * STREAMS + stream) * p.units;
    var sums: array<f32, T>;
    for (var t = 0u; t < T; t++) {
        sums[t] = 0.0;
    }
    var next = load(first_unit + min(lane, p.units - 1u));
    for (var base = 0u; base < p.units; base += STAGE) {
        let here = min(STAGE, p.units - base);
        workgroupBarrier();
        for (var t = 0u; t < T; t++) {
            // Beyond the end the last row is multiplied again and not stored.
            let row = first_row + min(t, count - 1u);
            for (var i = thread; i < 8u * here; i += THREADS) {
                let four = x_four(row * STREAMS + stream, 8u * base + i);
                let to = (t * 8u + i % 8u) * PITCH + i / 8u;
                staged[to] = four * norm_four(stream, 8u * base + i);
            }
        }
        workgroupBarrier();
        for (var i = lane; i < here; i += LANES) {
            let unit = next;
            next = load(first_unit + min(base + i + LANES, p.units - 1u));
            for (var t = 0u; t < T; t++) {
                sums[t] = add_product(unit, staged_input(t, i), sums[t]);
            }
        }
    }
    for (var t = 0u; t < T; t++) {
        partials[t * THREADS + thread] = sums[t];
    }
    workgroupBarrier();
    for (var o = thread; o < GROUPS * T; o += THREADS) {
        let t = o / GROUPS;
        let first = t * THREADS + o % GROUPS * LANES;
        var sum = partials[first];
        for (var i = 1u; i < min(LANES, p.units); i++) {
            sum += partials[first + i];
        }
        let row = block * GROUPS + o % GROUPS;
        if row < p.rank && t < count {
            part[((first_row + t) * STREAMS + stream) * p.rank + row] = sum;
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (p.rank + GROUPS - 1u) / GROUPS;
    let first_row = group.z * T;
    let count = min(T, p.rows - first_row);
    if group.x < blocks {
        down(group.x, group.y, first_row, count, thread);
    } else if group.x - blocks < count {
        side(first_row + group.x - blocks, group.y, thread);
    }
}
