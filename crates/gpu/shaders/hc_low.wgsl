// Rows of low values, with zeros up to whole units where p.pitch has room for them.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i >= p.rows * p.pitch {
        return;
    }
    var value = 0.0;
    if i % p.pitch < p.rank {
        value = low_at(i / p.pitch, i % p.pitch);
    }
    out[i] = value;
}
