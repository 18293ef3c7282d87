// Results that are convolved over the columns of their sequences at once: the rows of a window are
// all in this workgroup, and a channel's columns are touched by one thread alone.

// Channels of the workgroup in the rows of the window.
var<workgroup> fresh_rows: array<f32, BLOCK * T>;

fn channels() -> u32 {
    return p.weight_rows;
}

fn slot_len() -> u32 {
    return SLOT_LEN;
}

fn fresh_at(row: u32, channel: u32) -> f32 {
    return fresh_rows[row * BLOCK + channel % BLOCK];
}

fn leave(row: u32, column: u32, value: f32) {
    y[row * p.y_width + column] = value;
    fresh_rows[row * BLOCK + column % BLOCK] = value;
}

fn finish(block: u32, thread: u32) {
    workgroupBarrier();
    let last = min(BLOCK, p.weight_rows - block * BLOCK);
    for (var c = thread; c < last; c += THREADS) {
        convolve(block * BLOCK + c);
    }
}

fn convolve(channel: u32) {
    for (var i = 0u; i < call.runs; i++) {
        let run = run_at(i);
        for (var row = run.first; row < run.first + run.rows; row++) {
            let to = (run.first_row + row) * p.y_width + channel;
            convolved_rows[to] = convolved(run, row, channel);
        }
        if run.first == 0u {
            advance(run, channel);
        }
    }
}
