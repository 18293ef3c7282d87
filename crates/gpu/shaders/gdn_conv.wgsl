// The convolution before the delta rule.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let channel = group.x * THREADS + thread;
    if channel >= p.channels {
        return;
    }
    let run = run_at(group.y);
    for (var row = run.first; row < run.first + run.rows; row++) {
        out[(run.first_row + row) * p.channels + channel] = convolved(run, row, channel);
    }
    if run.first == 0u {
        advance(run, channel);
    }
}
