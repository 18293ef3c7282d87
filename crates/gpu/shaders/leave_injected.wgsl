// Results that each residual stream of their row takes as well: streams += gain * y.

fn leave(row: u32, column: u32, value: f32) {
    y[row * p.y_width + column] = value;
    for (var s = 0u; s < STREAMS; s++) {
        let i = (row * STREAMS + s) * p.y_width + column;
        streams[i] = fma(gains[row * STREAMS + s], value, streams[i]);
    }
}
