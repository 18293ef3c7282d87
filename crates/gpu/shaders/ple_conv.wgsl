// The features' convolution, and their sum into the streams.

fn store(row: u32, channel: u32, convolved: f32) {
    let gate = gates[row * p.streams + channel / p.width];
    let v = value[row * p.width + channel % p.width];
    let features = fma(gate, v, convolved);
    x[row * p.channels + channel] += features;
}
