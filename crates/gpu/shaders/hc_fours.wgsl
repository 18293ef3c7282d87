// Streams that are whole vectors.

fn x_four(stream_row: u32, k: u32) -> vec4<f32> {
    return x[stream_row * (p.width / 4u) + k];
}

fn norm_four(stream: u32, k: u32) -> vec4<f32> {
    return norm[stream * (p.width / 4u) + k];
}

fn inject_four(row: u32, stream: u32, k: u32) -> vec4<f32> {
    return inject[(row * STREAMS + stream) * (p.width / 4u) + k];
}
