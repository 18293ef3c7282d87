// Matrix times many rows. A workgroup has ROWS weight rows and T rows of activations; a unit of
// each comes to workgroup memory, and every thread adds up RT times TT products. Sums are those of
// the kernel for few rows, step by step: lane after lane, each in an accumulator that begins at
// zero.

const THREADS: u32 = 128u;
const TOKEN_GROUPS: u32 = T / TT;
const ROW_GROUPS: u32 = THREADS / TOKEN_GROUPS;
const ROWS: u32 = ROW_GROUPS * RT;
const SUMS: u32 = RT * TT;

var<workgroup> units: array<Unit, ROWS>;
var<workgroup> inputs: array<Input, T>;

fn product(block: u32, index: u32, thread: u32) {
    let tile = find_tile(index);
    if tile.count == 0u {
        return;
    }
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
                    let row = tile.base + min(block * ROWS + s, p.weight_rows - 1u);
                    units[s] = load(row * p.units + i);
                } else {
                    let row = x_row(tile, min(s - ROWS, tile.count - 1u));
                    inputs[s - ROWS] = load_x(row * p.units + i);
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
        let row = block * ROWS + row_group + v / TT * ROW_GROUPS;
        let t = first_t + v % TT;
        if row < p.weight_rows && t < tile.count {
            y[y_row(tile, t) * p.y_width + p.y_first + row] = totals[v];
        }
    }
}
