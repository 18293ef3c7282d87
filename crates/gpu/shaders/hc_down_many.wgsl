// Many rows times `down`, stream by stream: 64 weight rows and T rows of activations of one stream
// for a workgroup. A unit of each comes to workgroup memory, and every thread adds up RT times TT
// products. Sums are those of the kernel for few rows, step by step: lane after lane, each in an
// accumulator that begins at zero.

const TOKEN_GROUPS: u32 = T / TT;
const ROW_GROUPS: u32 = THREADS / TOKEN_GROUPS;
const ROWS: u32 = ROW_GROUPS * RT;
const SUMS: u32 = RT * TT;

var<workgroup> units: array<Unit, ROWS>;
var<workgroup> inputs: array<Input, T>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let stream = group.y;
    let tile = group.z * T;
    let count = min(T, p.rows - tile);
    let row_group = thread % ROW_GROUPS;
    let first_t = thread / ROW_GROUPS * TT;
    var totals: array<f32, SUMS>;
    var sums: array<f32, SUMS>;
    for (var lane = 0u; lane < min(LANES, p.units); lane++) {
        for (var v = 0u; v < SUMS; v++) {
            sums[v] = 0.0;
        }
        for (var i = lane; i < p.units; i += LANES) {
            workgroupBarrier();
            for (var s = thread; s < ROWS + T; s += THREADS) {
                // Beyond the end the last row is taken again and not stored.
                if s < ROWS {
                    let row = min(group.x * ROWS + s, p.rank - 1u);
                    units[s] = load((row * STREAMS + stream) * p.units + i);
                } else {
                    let row = tile + min(s - ROWS, count - 1u);
                    for (var k = 0u; k < 8u; k++) {
                        let four = x_four(row * STREAMS + stream, 8u * i + k);
                        inputs[s - ROWS].values[k] = four * norm_four(stream, 8u * i + k);
                    }
                }
            }
            workgroupBarrier();
            for (var r = 0u; r < RT; r++) {
                let unit = units[row_group + r * ROW_GROUPS];
                for (var t = 0u; t < TT; t++) {
                    let v = r * TT + t;
                    sums[v] = add_product(unit, inputs[first_t + t], sums[v]);
                }
            }
        }
        for (var v = 0u; v < SUMS; v++) {
            totals[v] = select(totals[v] + sums[v], sums[v], lane == 0u);
        }
    }
    for (var v = 0u; v < SUMS; v++) {
        let row = group.x * ROWS + row_group + v / TT * ROW_GROUPS;
        let t = first_t + v % TT;
        if row < p.rank && t < count {
            part[((tile + t) * STREAMS + stream) * p.rank + row] = totals[v];
        }
    }
}
