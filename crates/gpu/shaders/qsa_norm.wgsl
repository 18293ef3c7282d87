// RMS norm and rotation of a head. The kernel gives `source(head, d)`, a value of a head as it
// came, and `norm_weight(d)`. Every kernel takes the same steps in the same order.

const NORM_LANES: u32 = 16u;

// What a lane adds up: every sixteenth square.
fn lane_squares(head: u32, lane: u32, width: u32) -> f32 {
    var sum = 0.0;
    for (var d = lane; d < width; d += NORM_LANES) {
        let value = source(head, d);
        sum = fma(value, value, sum);
    }
    return sum;
}

// The factor for a sum of `width` squares.
fn norm_scale(sum: f32, width: u32) -> f32 {
    return 1.0 / sqrt(fma(sum, 1.0 / f32(width), p.eps));
}

fn normed(head: u32, d: u32, scale: f32) -> f32 {
    return source(head, d) * scale * norm_weight(d);
}

// Value d of a head, normalised and rotated; `first` is the place of its position's first angle,
// `pairs` the number of rotated pairs. Zero behind the head.
fn turned(head: u32, d: u32, width: u32, scale: f32, first: u32, pairs: u32) -> f32 {
    if d >= width {
        return 0.0;
    }
    let value = normed(head, d, scale);
    if d >= 2u * pairs {
        return value;
    }
    if d < pairs {
        let angle = angles[first + d];
        return fma(-normed(head, d + pairs, scale), angle.y, value * angle.x);
    }
    let angle = angles[first + d - pairs];
    return fma(normed(head, d - pairs, scale), angle.y, value * angle.x);
}
