// One workgroup for each stream of each row.

fn stream_fours() -> u32 {
    return (p.width + 3u) / 4u;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    side(p.first_row + group.x, group.y, thread);
}
