// The `used` largest logits of a row in falling order, and the softmax over them. Logits are read
// as bits. A group of GROUP threads per row; each round takes the best key behind the one before.

const PARTS: u32 = 8u;
// Experts of a thread.
const EACH: u32 = (EXPERTS + GROUP - 1u) / GROUP;
const NONE: u32 = 0xffffffffu;

var<workgroup> keys: array<vec2<u32>, THREADS>;
var<workgroup> parts: array<vec2<u32>, THREADS / PARTS>;
var<workgroup> nan: array<u32, THREADS>;

// All threads of the workgroup call it together.
fn choose(row: u32, here: bool, thread: u32) {
    let lane = thread % GROUP;
    let base = thread - lane;
    let first = row * EXPERTS;
    var bad = 0u;
    var own: array<u32, EACH>;
    for (var k = 0u; k < EACH; k++) {
        let i = lane + k * GROUP;
        own[k] = NONE;
        if here && i < EXPERTS {
            let bits = logits[first + i];
            own[k] = falling(bits);
            bad |= select(0u, 1u, is_nan_bits(bits));
        }
    }
    nan[thread] = bad;
    var last = vec2(0u, 0u);
    for (var j = 0u; j < p.used; j++) {
        var mine = vec2(0xffffffffu, 0xffffffffu);
        for (var k = 0u; k < EACH; k++) {
            let i = lane + k * GROUP;
            let key = vec2(own[k], select(NONE, i, here && i < EXPERTS));
            if (j == 0u || before(last, key)) && before(key, mine) {
                mine = key;
            }
        }
        keys[thread] = mine;
        workgroupBarrier();
        if lane < GROUP / PARTS {
            var best = keys[base + lane * PARTS];
            for (var k = 1u; k < PARTS; k++) {
                let other = keys[base + lane * PARTS + k];
                if before(other, best) {
                    best = other;
                }
            }
            parts[base / PARTS + lane] = best;
        }
        workgroupBarrier();
        var best = parts[base / PARTS];
        for (var k = 1u; k < GROUP / PARTS; k++) {
            let other = parts[base / PARTS + k];
            if before(other, best) {
                best = other;
            }
        }
        last = best;
        if here && lane == 0u {
            experts[row * p.used + j] = last.y;
        }
    }
    if !here || lane != 0u {
        return;
    }
    for (var k = 1u; k < GROUP; k++) {
        bad |= nan[base + k];
    }
    let pairs = row * p.used;
    let largest = bitcast<f32>(logits[first + experts[pairs]]);
    var total = 0.0;
    for (var j = 0u; j < p.used; j++) {
        total += exp(bitcast<f32>(logits[first + experts[pairs + j]]) - largest);
    }
    for (var j = 0u; j < p.used; j++) {
        let logit = bitcast<f32>(logits[first + experts[pairs + j]]);
        let weight = exp(logit - largest) / total;
        weights[pairs + j] = select(bitcast<u32>(weight), 0x7fc00000u, bad != 0u);
    }
}
