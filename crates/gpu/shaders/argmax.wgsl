// The place of the largest value of a row, the lowest of equal ones; none if a value is NaN or the
// largest is not finite. x holds bits.

const NONE: u32 = 0xffffffffu;

var<workgroup> best: array<vec2<u32>, THREADS>;
var<workgroup> nan: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x;
    var mine = vec2(NONE, NONE);
    var bad = 0u;
    for (var i = thread; i < p.width; i += THREADS) {
        let bits = x[row * p.width + i];
        let key = vec2(falling(bits), i);
        if is_nan_bits(bits) {
            bad = 1u;
        }
        if before(key, mine) {
            mine = key;
        }
    }
    best[thread] = mine;
    nan[thread] = bad;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if thread < step {
            nan[thread] |= nan[thread + step];
            if before(best[thread + step], best[thread]) {
                best[thread] = best[thread + step];
            }
        }
        workgroupBarrier();
    }
    if thread == 0u {
        let key = best[0];
        var place = NONE;
        if nan[0] == 0u && key.x != falling(INFINITE) && key.x < falling(0xff800000u) {
            place = key.y;
        }
        out[row] = place;
    }
}
