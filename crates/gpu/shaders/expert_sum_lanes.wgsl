// The share of a thread in the products of one weight row with some inputs: of COUNT matrices with an
// input each. BATCH of them are asked for before the first is needed. Lane i adds the units i,
// i + LANES, ..., as in every product.

const STEPS: u32 = (UNITS + LANES - 1u) / LANES;

fn lane_sums(row: u32, weight_row: u32, thread: u32) {
    let lane = thread % LANES;
    for (var first = 0u; first < COUNT; first += BATCH) {
        var units: array<Unit, BATCH * STEPS>;
        for (var b = 0u; b < BATCH; b++) {
            let matrix = matrix_of(row, min(first + b, COUNT - 1u));
            let base = (matrix * p.weight_rows + weight_row) * UNITS;
            for (var k = 0u; k < STEPS; k++) {
                units[b * STEPS + k] = load(base + min(lane + k * LANES, UNITS - 1u));
            }
        }
        for (var b = 0u; b < BATCH; b++) {
            // Beyond the end the last one is multiplied again, to the same sum.
            let j = min(first + b, COUNT - 1u);
            let input = (row * COUNT + j) * UNITS;
            var sum = 0.0;
            for (var k = 0u; k < STEPS; k++) {
                let i = lane + k * LANES;
                let x = load_x(input + min(i, UNITS - 1u));
                sum = select(sum, add_product(units[b * STEPS + k], x, sum), i < UNITS);
            }
            partials[(FIRST + j) * THREADS + thread] = sum;
        }
    }
}
