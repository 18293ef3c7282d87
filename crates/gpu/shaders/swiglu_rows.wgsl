// out[row] = silu(gate) * up, where a row of x is [gate | up].

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i < p.rows * p.width {
        let gate = i / p.width * p.width + i;
        out[i] = silu(x[gate]) * x[gate + p.width];
    }
}
