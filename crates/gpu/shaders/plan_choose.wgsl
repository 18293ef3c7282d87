// The `used` largest logits of a row in falling order, and the softmax over them. Logits are read
// as bits. One workgroup per row; each round takes the best key behind the one before.

var<workgroup> best: array<vec2<u32>, THREADS>;
var<workgroup> nan: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * p.grid;
    if row >= p.rows {
        return;
    }
    var bad = 0u;
    for (var i = thread; i < p.experts; i += THREADS) {
        if is_nan_bits(logits[row * p.experts + i]) {
            bad = 1u;
        }
    }
    nan[thread] = bad;
    var last = vec2(0u, 0u);
    for (var j = 0u; j < p.used; j++) {
        var mine = vec2(0xffffffffu, 0xffffffffu);
        for (var i = thread; i < p.experts; i += THREADS) {
            let key = vec2(falling(logits[row * p.experts + i]), i);
            if (j == 0u || before(last, key)) && before(key, mine) {
                mine = key;
            }
        }
        best[thread] = mine;
        workgroupBarrier();
        for (var step = THREADS / 2u; step > 0u; step /= 2u) {
            if thread < step {
                if before(best[thread + step], best[thread]) {
                    best[thread] = best[thread + step];
                }
                if j == 0u {
                    nan[thread] |= nan[thread + step];
                }
            }
            workgroupBarrier();
        }
        last = best[0];
        if thread == 0u {
            experts[row * p.used + j] = last.y;
        }
        workgroupBarrier();
    }
    if thread != 0u {
        return;
    }
    let pairs = row * p.used;
    let largest = bitcast<f32>(logits[row * p.experts + experts[pairs]]);
    var total = 0.0;
    for (var j = 0u; j < p.used; j++) {
        total += exp(bitcast<f32>(logits[row * p.experts + experts[pairs + j]]) - largest);
    }
    for (var j = 0u; j < p.used; j++) {
        let logit = bitcast<f32>(logits[row * p.experts + experts[pairs + j]]);
        let weight = exp(logit - largest) / total;
        weights[pairs + j] = select(bitcast<u32>(weight), 0x7fc00000u, nan[0] != 0u);
    }
}
