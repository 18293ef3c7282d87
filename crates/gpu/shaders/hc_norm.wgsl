// The normed streams.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    let wide = STREAMS * p.width;
    if i >= p.rows * wide {
        return;
    }
    let scale = scale_of(i / wide, i % wide / p.width);
    out[i] = normed(x[i], scale, norm[i % wide]);
}
