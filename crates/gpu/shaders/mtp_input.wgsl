// A half of a row of the drafting block's input: the embedding, or one stream, normalised. Halves
// are one after the other: row, stream, embedding before stream.

var<workgroup> squares: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let half = group.x + group.y * p.grid;
    if half >= p.halves {
        return;
    }
    let embedding = half % 2u == 0u;
    let row = half / 2u / p.streams;
    let stream = half / 2u % p.streams;
    // What is measured: an embedding, all streams of a row, or one of them.
    let own = (row * p.streams + stream) * p.width;
    let streams_first = select(own, row * p.streams * p.width, p.whole != 0u);
    let first = select(streams_first, row * p.width, embedding);
    let count = select(p.width, p.streams * p.width, !embedding && p.whole != 0u);
    var sum = 0.0;
    for (var i = thread; i < count; i += THREADS) {
        var value = 0.0;
        if embedding {
            value = e[first + i];
        } else {
            value = x[first + i];
        }
        sum = fma(value, value, sum);
    }
    squares[thread] = sum;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if thread < step {
            squares[thread] += squares[thread + step];
        }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(squares[0] / f32(count) + p.eps);
    for (var i = thread; i < p.width; i += THREADS) {
        var value = 0.0;
        if embedding {
            value = e[first + i] * scale * e_norm[i];
        } else {
            value = x[own + i] * scale * x_norm[stream * p.width + i];
        }
        out[half * p.width + i] = value;
    }
}
