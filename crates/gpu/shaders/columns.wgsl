// A causal convolution over the columns that a slot has seen. Its state is the history and, right
// behind it, the columns set aside, so a column's number counts through both and on into the
// window's rows, which `fresh_at` has. A channel of a run's first chunk belongs to one thread, which
// alone touches the state; later chunks are at least as long as the history and do not reach it.

const HISTORY: u32 = (KERNEL - 1u) * DILATION;

fn column(run: Run, i: u32, channel: u32) -> f32 {
    if i < HISTORY + run.replay {
        return state[run.slot * slot_len() + i * channels() + channel];
    }
    let row = run.first_row + i - HISTORY - run.replay;
    return fresh_at(row, channel);
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
    let first = run.slot * slot_len() + channel;
    let steps = entering(run);
    if steps > 0u {
        for (var i = 0u; i < HISTORY; i++) {
            state[first + i * channels()] = column(run, steps + i, channel);
        }
    }
    if run.deferred == 1u {
        for (var i = 0u; i < run.len; i++) {
            let value = fresh_at(run.first_row + i, channel);
            state[first + (HISTORY + i) * channels()] = value;
        }
    }
}
