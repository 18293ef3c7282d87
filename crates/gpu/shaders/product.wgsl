// Matrix times few rows. L lanes share R weight rows and K splits of the inner dimension share them
// again: together they are the lanes of a row. Lane i adds the units i, i + L K, ..., then the
// lanes are added in order. T rows of activations are multiplied with a unit at once.

const GROUPS: u32 = THREADS / LANES;
const SUMS: u32 = R * T;

fn product(block: u32, index: u32, thread: u32) {
    let tile = find_tile(index);
    if tile.count == 0u {
        return;
    }
    fetch_book(thread, THREADS);
    let first_row = (block * GROUPS + thread / LANES) * R;
    var x_rows: array<u32, T>;
    for (var t = 0u; t < T; t++) {
        // Beyond the end it is the last row again, which is not stored.
        x_rows[t] = x_row(tile, min(t, tile.count - 1u)) * p.units;
    }
    var sums: array<f32, SUMS>;
    for (var v = 0u; v < SUMS; v++) {
        sums[v] = 0.0;
    }
    for (var i = thread % LANES; i < p.units; i += LANES * U) {
        for (var u = 0u; u < U; u++) {
            let at = min(i + u * LANES, p.units - 1u);
            let valid = i + u * LANES < p.units;
            for (var r = 0u; r < R; r++) {
                let row = tile.base + min(first_row + r, p.weight_rows - 1u);
                let unit = load(row * p.units + at);
                for (var t = 0u; t < T; t++) {
                    if t == 0u || t < multiplied(tile) {
                        let x = load_x(x_rows[t] + at);
                        let before = sums[r * T + t];
                        sums[r * T + t] = select(before, add_product(unit, x, before), valid);
                    }
                }
            }
        }
    }
    for (var v = 0u; v < SUMS; v++) {
        partials[v * THREADS + thread] = sums[v];
    }
    workgroupBarrier();
    let used = min(LANES, p.units);
    for (var o = thread; o < GROUPS * SUMS; o += THREADS) {
        let v = o / GROUPS;
        let first = v * THREADS + o % GROUPS * LANES;
        var sum = partials[first];
        for (var i = 1u; i < used; i++) {
            sum += partials[first + i];
        }
        let row = (block * GROUPS + o % GROUPS) * R + v / T;
        let t = v % T;
        if row < p.weight_rows && t < tile.count {
            leave(y_row(tile, t), p.y_first + row, sum);
        }
    }
    finish(block, thread);
}
