// What the first step of a read leaves, in one buffer: products with `down`, and behind them, for
// each stream of each row, the sum of its squares and its products with `inject`. The norm of a
// stream is a factor of its products, so it need not be known before them. `part_at` reads it.

const BY_STREAMS: f32 = 1.0 / f32(STREAMS);

fn side_place(row: u32, stream: u32) -> u32 {
    return p.side_at + (row * STREAMS + stream) * (1u + INJECT);
}

fn scale_from(squares: f32) -> f32 {
    return norm_scale(fma(squares, p.by_width, p.eps));
}

fn scale_of(row: u32, stream: u32) -> f32 {
    return scale_from(part_at(side_place(row, stream)));
}

fn normed(x: f32, scale: f32, norm: f32) -> f32 {
    return x * scale * norm;
}

// With SPLIT the products of each stream are by themselves and not normed yet.
fn low_at(row: u32, i: u32) -> f32 {
    var sum = 0.0;
    if SPLIT == 1u {
        for (var s = 0u; s < STREAMS; s++) {
            sum = fma(scale_of(row, s), part_at((row * STREAMS + s) * p.rank + i), sum);
        }
    } else {
        sum = part_at(row * p.rank + i);
    }
    return silu(sum * BY_STREAMS);
}

fn write_weight(row: u32, stream: u32) -> f32 {
    var sum = 0.0;
    for (var s = 0u; s < STREAMS; s++) {
        sum = fma(scale_of(row, s), part_at(side_place(row, s) + 1u + stream), sum);
    }
    return 2.0 * sigmoid(sum * BY_STREAMS);
}
