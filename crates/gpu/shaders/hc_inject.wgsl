// x += weight * y, for each stream.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i < p.rows * STREAMS * p.width {
        let stream_row = i / p.width;
        let add = y[stream_row / STREAMS * p.width + i % p.width];
        x[i] = fma(weights[stream_row], add, x[i]);
    }
}
