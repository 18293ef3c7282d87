// The `used` largest logits of a row in falling order, and the softmax over them. Logits are read
// as bits. A group of GROUP threads per row; each round takes the best key behind the one before.

const PARTS: u32 = 8u;

var<workgroup> keys: array<vec2<u32>, THREADS>;
var<workgroup> parts: array<vec2<u32>, THREADS / PARTS>;
var<workgroup> nan: array<u32, THREADS>;

// All threads of the workgroup call it together.
fn choose(row: u32, here: bool, thread: u32) {
    let lane = thread % GROUP;
    let base = thread - lane;
    let first = row * p.experts;
    var bad = 0u;
    if here {
        for (var i = lane; i < p.experts; i += GROUP) {
            if is_nan_bits(logits[first + i]) {
                bad = 1u;
            }
        }
    }
    nan[thread] = bad;
    var last = vec2(0u, 0u);
    for (var j = 0u; j < p.used; j++) {
        var mine = vec2(0xffffffffu, 0xffffffffu);
        if here {
            for (var i = lane; i < p.experts; i += GROUP) {
                let key = vec2(falling(logits[first + i]), i);
                if (j == 0u || before(last, key)) && before(key, mine) {
                    mine = key;
                }
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
