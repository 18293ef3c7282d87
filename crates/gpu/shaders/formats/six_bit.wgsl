// Scales and minima of Q4_K and Q5_K: 6 bits each for 8 units, in four words with their 16-bit
// scales.

struct Affine {
    scale: f32,
    offset: f32,
}

fn affine(plane: u32, unit: u32) -> Affine {
    let words = w4[(plane >> 2u) + (unit >> 3u)];
    let shift = 8u * (unit & 3u);
    let y = (words.y >> shift) & 0xffu;
    let z = (words.z >> shift) & 0xffu;
    let last = (words.w >> shift) & 0xffu;
    let early = (unit & 7u) < 4u;
    let scale = select((last & 15u) | ((y >> 6u) << 4u), y & 63u, early);
    let minimum = select((last >> 4u) | ((z >> 6u) << 4u), z & 63u, early);
    return Affine(half(words.x & 0xffffu) * f32(scale), -half(words.x >> 16u) * f32(minimum));
}
