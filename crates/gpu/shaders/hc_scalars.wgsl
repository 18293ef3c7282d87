// Streams of any width, with zeros up to a whole vector.

fn x_four(stream_row: u32, k: u32) -> vec4<f32> {
    var four = vec4(0.0);
    for (var i = 0u; i < min(4u, p.width - 4u * k); i++) {
        four[i] = x[stream_row * p.width + 4u * k + i];
    }
    return four;
}

fn norm_four(stream: u32, k: u32) -> vec4<f32> {
    var four = vec4(0.0);
    for (var i = 0u; i < min(4u, p.width - 4u * k); i++) {
        four[i] = norm[stream * p.width + 4u * k + i];
    }
    return four;
}

fn inject_four(row: u32, stream: u32, k: u32) -> vec4<f32> {
    var four = vec4(0.0);
    for (var i = 0u; i < min(4u, p.width - 4u * k); i++) {
        four[i] = inject[(row * STREAMS + stream) * p.width + 4u * k + i];
    }
    return four;
}
