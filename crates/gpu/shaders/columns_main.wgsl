// A convolution over rows in a buffer.

fn channels() -> u32 {
    return p.channels;
}

fn slot_len() -> u32 {
    return p.slot_len;
}

fn fresh_at(row: u32, channel: u32) -> f32 {
    return fresh[row * p.channels + channel];
}

// A thread for each channel of each chunk; `store` takes what a row's convolution gives.
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
        store(run.first_row + row, channel, convolved(run, row, channel));
    }
    if run.first == 0u {
        advance(run, channel);
    }
}
