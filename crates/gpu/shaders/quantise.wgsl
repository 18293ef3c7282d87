// Activations brought to 8 bits.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    let here = i < p.rows * p.width;
    store_codes(i, thread, x[select(0u, i, here)], here);
}
