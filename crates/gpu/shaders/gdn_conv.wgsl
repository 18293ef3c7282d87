// The convolution before the delta rule.

fn store(row: u32, channel: u32, convolved: f32) {
    out[row * p.channels + channel] = convolved;
}
