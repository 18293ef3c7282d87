// o = RMS(o) * norm * sigma(z), a workgroup for each head of each row.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group.x + group.y * p.grid;
    if head >= p.heads {
        return;
    }
    var square = 0.0;
    for (var i = thread; i < HEAD; i += THREADS) {
        let value = o[head * HEAD + i];
        square = fma(value, value, square);
    }
    let mean = sum_up(thread, vec4(square, 0.0, 0.0, 0.0)).x / f32(HEAD);
    let scale = norm_scale(mean + p.eps);
    for (var i = thread; i < HEAD; i += THREADS) {
        let at = head * HEAD + i;
        o[at] = o[at] * scale * norm[i] * sigmoid(z[at]);
    }
}
