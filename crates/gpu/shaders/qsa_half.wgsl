// The 16 bits of the half nearest to a number, ties to even; too large becomes infinite. In whole
// numbers, so that every device rounds alike and keeps denormals.

fn to_half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u {
        return sign | 0x7e00u;
    }
    if magnitude >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if magnitude >= 0x38800000u {
        let odd = (magnitude >> 13u) & 1u;
        return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13u);
    }
    if magnitude <= 0x33000000u {
        return sign;
    }
    let shift = 126u - (magnitude >> 23u);
    let digits = (magnitude & 0x7fffffu) | 0x800000u;
    let odd = (digits >> shift) & 1u;
    return sign | ((digits + (1u << (shift - 1u)) - 1u + odd) >> shift);
}
