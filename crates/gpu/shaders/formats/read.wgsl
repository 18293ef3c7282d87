// Reading of planes.

// The number with these 16 bits; denormals too, on every device.
fn half(bits: u32) -> f32 {
    let magnitude = bits & 0x7fffu;
    let normal = (magnitude << 13u) + 0x38000000u;
    let denormal = bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8);
    let special = (magnitude << 13u) | 0x7f800000u;
    let finite = select(normal, denormal, magnitude < 0x400u);
    let value = select(special, finite, magnitude < 0x7c00u);
    return bitcast<f32>(((bits & 0x8000u) << 16u) | value);
}

// Number i of a plane of 16-bit numbers.
fn half_at(plane: u32, i: u32) -> f32 {
    return half((w[plane + (i >> 1u)] >> (16u * (i & 1u))) & 0xffffu);
}

// Byte i of a plane.
fn byte_at(plane: u32, i: u32) -> u32 {
    return (w[plane + (i >> 2u)] >> (8u * (i & 3u))) & 0xffu;
}

// Bytes less than 128, each minus `bias`, which is at most 128: no byte borrows from the next.
fn minus(bytes: vec4<u32>, bias: u32) -> vec4<u32> {
    return ((bytes | vec4(0x80808080u)) - vec4(bias * 0x01010101u)) ^ vec4(0x80808080u);
}

// Four bytes from 1 to 127, negative where a bit of `signs` is set.
fn signed(magnitudes: u32, signs: u32) -> u32 {
    let negative = ((signs & 15u) * 0x00204081u) & 0x01010101u;
    return (magnitudes ^ (negative * 255u)) + negative;
}
