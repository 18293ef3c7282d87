// Down projections of a row's experts and of the shared one, and their weighted sum. A workgroup has
// GROUPS columns of one row, LANES threads share a weight row.

const GROUPS: u32 = THREADS / LANES;
const ALL: u32 = USED + 1u;

var<workgroup> partials: array<f32, THREADS * ALL>;
var<workgroup> sums: array<f32, GROUPS * ALL>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.y;
    let width = p.s0.weight_rows;
    fetch_books(thread);
    let weight_row = min(group.x * GROUPS + thread / LANES, width - 1u);
    lane_sums_0(row, weight_row, thread);
    lane_sums_1(row, weight_row, thread);
    workgroupBarrier();
    for (var o = thread; o < GROUPS * ALL; o += THREADS) {
        let j = o / GROUPS;
        let first = j * THREADS + o % GROUPS * LANES;
        var sum = partials[first];
        for (var i = 1u; i < min(LANES, select(UNITS_0, UNITS_1, j == USED)); i++) {
            sum += partials[first + i];
        }
        sums[o] = sum;
        let column = group.x * GROUPS + o % GROUPS;
        if column < width {
            if j < USED {
                part[(row * USED + j) * width + column] = sum;
            } else {
                shared_y[row * width + column] = sum;
            }
        }
    }
    workgroupBarrier();
    let column = group.x * GROUPS + thread;
    if thread < GROUPS && column < width {
        var sum = 0.0;
        for (var j = 0u; j < USED; j++) {
            sum = fma(weights[row * USED + j], sums[j * GROUPS + thread], sum);
        }
        sum = fma(sigmoid(gate[row]), sums[USED * GROUPS + thread], sum);
        leave(row, column, sum);
    }
}
