// One over the root, and no number for the root of what is infinite: a sum that overflows must not
// pass for zeros.

fn norm_scale(square: f32) -> f32 {
    let bits = bitcast<u32>(square);
    let finite = (bits & 0x7f800000u) != 0x7f800000u;
    return bitcast<f32>(select(bits | 0x7fc00000u, bitcast<u32>(inverseSqrt(square)), finite));
}
