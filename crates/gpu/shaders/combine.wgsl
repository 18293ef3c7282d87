// y = sum over the choices of weight * part, in order, then sigma(gate) * shared.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i >= p.rows * p.width {
        return;
    }
    let row = i / p.width;
    let column = i % p.width;
    var sum = 0.0;
    for (var j = 0u; j < p.first; j++) {
        let pair = row * p.first + j;
        sum = fma(weights[pair], part[pair * p.width + column], sum);
    }
    out[i] = fma(sigmoid(gate[row]), x[i], sum);
}
