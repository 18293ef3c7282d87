// The gated mix of the streams, and their write weights.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i < p.rows * p.width {
        let row = i / p.width;
        let column = i % p.width;
        var sum = 0.0;
        for (var s = 0u; s < STREAMS; s++) {
            let at = (row * STREAMS + s) * p.width + column;
            let n = normed(x[at], scale_of(row, s), norm[s * p.width + column]);
            sum = fma(sigmoid(gates[at]), n, sum);
        }
        u[i] = sum * BY_STREAMS;
    }
    if INJECT > 0u && i < p.rows * STREAMS {
        weights[i] = write_weight(i / STREAMS, i % STREAMS);
    }
}
