// A causal convolution over the columns that a slot has seen. Its state is the history and, right
// behind it, the columns set aside, so a column's number counts through both and on into the
// window's rows. A channel of a run's first chunk belongs to one thread, which alone touches the
// state; later chunks are at least as long as the history and do not reach it.

const HISTORY: u32 = (KERNEL - 1u) * DILATION;

fn column(run: Run, i: u32, channel: u32) -> f32 {
    if i < HISTORY + run.replay {
        return state[run.slot * p.slot_len + i * p.channels + channel];
    }
    let row = run.first_row + i - HISTORY - run.replay;
    return fresh[row * p.channels + channel];
}

// At row `row` of the run.
fn convolved(run: Run, row: u32, channel: u32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < KERNEL; k++) {
        let past = column(run, run.replay + row + k * DILATION, channel);
        sum = fma(taps[channel * KERNEL + k], past, sum);
    }
    return silu(sum);
}

// Brings the state behind the run. Columns move towards the front, so none is overwritten early.
fn advance(run: Run, channel: u32) {
    let first = run.slot * p.slot_len + channel;
    let steps = entering(run);
    if steps > 0u {
        for (var i = 0u; i < HISTORY; i++) {
            state[first + i * p.channels] = column(run, steps + i, channel);
        }
    }
    if run.deferred == 1u {
        for (var i = 0u; i < run.len; i++) {
            let value = fresh[(run.first_row + i) * p.channels + channel];
            state[first + (HISTORY + i) * p.channels] = value;
        }
    }
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
