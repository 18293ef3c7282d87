// The gate of one stream of one row, and the convolution's input there: a workgroup for each.

fn gate_of(a: f32) -> f32 {
    let root = sqrt(max(abs(a), 1e-6));
    let nan = (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
    // A NaN stays one; zero has no sign.
    var value = select(0.0, a, nan);
    value = select(value, root, a > 0.0);
    value = select(value, -root, a < 0.0);
    return sigmoid(value);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let stream_row = group.x + group.y * p.grid;
    if stream_row >= p.stream_rows {
        return;
    }
    let row = stream_row / p.streams;
    let first = stream_row * p.width;
    let weights = stream_row % p.streams * p.width;
    // Key and query times themselves and each other, value times itself.
    var sums = vec4(0.0);
    for (var i = thread; i < p.width; i += THREADS) {
        let k = key[first + i];
        let q = x[first + i];
        let v = value[row * p.width + i];
        let both = vec2(k * norm_key[weights + i], q * norm_query[weights + i]);
        sums = fma(vec4(k, q, both.x, v), vec4(k, q, both.y, v), sums);
    }
    sums = sum_up(thread, sums);
    let by_key = norm_scale(fma(sums.x, p.by_width, p.eps));
    let by_query = norm_scale(fma(sums.y, p.by_width, p.eps));
    let gate = gate_of(sums.z * by_key * by_query * p.by_root);
    let by_value = norm_scale(fma(gate * gate * sums.w, p.by_width, p.eps));
    for (var i = thread; i < p.width; i += THREADS) {
        let z = gate * value[row * p.width + i];
        c[first + i] = z * by_value * norm_conv[weights + i];
    }
    if thread == 0u {
        gates[stream_row] = gate;
    }
}
