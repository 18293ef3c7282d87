// o = RMS(o) * norm * sigma(z), a workgroup of THREADS = HEAD threads for each head of each row, and
// the same in 8 bits.

var<workgroup> gated: array<f32, HEAD>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group.x + group.y * p.grid;
    if head >= p.heads {
        return;
    }
    let at = head * HEAD + thread;
    let value = o[at];
    let square = fma(value, value, 0.0);
    let mean = sum_up(thread, vec4(square, 0.0, 0.0, 0.0)).x / f32(HEAD);
    let scale = norm_scale(mean + p.eps);
    let result = value * scale * norm[thread] * sigmoid(z[at]);
    o[at] = result;
    gated[thread] = result;
    workgroupBarrier();
    let vectors = HEAD / 4u;
    let mine = 4u * min(thread, vectors - 1u);
    let four = vec4(gated[mine], gated[mine + 1u], gated[mine + 2u], gated[mine + 3u]);
    store_codes(head * vectors + thread, thread, four, thread < vectors);
}
