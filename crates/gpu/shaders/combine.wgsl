// y = sum over the USED choices of weight * part, in order, then sigma(gate) * shared.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i >= p.rows * p.y_width {
        return;
    }
    let row = i / p.y_width;
    let column = i % p.y_width;
    var sum = 0.0;
    for (var j = 0u; j < USED; j++) {
        let pair = row * USED + j;
        sum = fma(weights[pair], part[pair * p.y_width + column], sum);
    }
    leave(row, column, fma(sigmoid(gate[row]), shared_y[i], sum));
}
