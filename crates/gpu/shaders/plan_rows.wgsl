// A workgroup's row.

fn take(pair: u32, expert: u32) {
    experts[pair] = expert;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * p.grid;
    choose(row, row < p.rows, thread);
}
