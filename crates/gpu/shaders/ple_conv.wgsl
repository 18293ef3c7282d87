// The features' convolution, and their sum into the streams.

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
    let stream = channel / p.width;
    for (var i = run.first; i < run.first + run.rows; i++) {
        let row = run.first_row + i;
        let gate = gates[row * p.streams + stream];
        let v = value[row * p.width + channel % p.width];
        let features = fma(gate, v, convolved(run, i, channel));
        x[row * p.channels + channel] += features;
    }
    if run.first == 0u {
        advance(run, channel);
    }
}
