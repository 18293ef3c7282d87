// Values as numbers that rise with falling values. Zeros of either sign are equal; a NaN counts as
// negative infinity.

const INFINITE: u32 = 0x7f800000u;

fn is_nan_bits(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > INFINITE;
}

fn falling(bits: u32) -> u32 {
    var value = select(bits, 0xff800000u, is_nan_bits(bits));
    value = select(value, 0u, value == 0x80000000u);
    // Negative values count backwards.
    return ~select(value | 0x80000000u, ~value, (value >> 31u) == 1u);
}

fn before(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}
