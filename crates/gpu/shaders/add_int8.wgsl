// Activations of 8 bits: sums of codes are exact, then fused steps along the row.

struct Input {
    low: vec4<u32>,
    high: vec4<u32>,
    // Bits of the scale, and the sums of both halves.
    parts: vec2<u32>,
}

fn load_x(place: u32) -> Input {
    return Input(codes[2u * place], codes[2u * place + 1u], scales[place]);
}

fn add_product(unit: Unit, x: Input, sum: f32) -> f32 {
    let low = x.low;
    let high = x.high;
    let scale = bitcast<f32>(x.parts.x);
    let first = dot4I8Packed(unit.low.x, low.x) + dot4I8Packed(unit.low.y, low.y)
        + dot4I8Packed(unit.low.z, low.z) + dot4I8Packed(unit.low.w, low.w);
    let second = dot4I8Packed(unit.high.x, high.x) + dot4I8Packed(unit.high.y, high.y)
        + dot4I8Packed(unit.high.z, high.z) + dot4I8Packed(unit.high.w, high.w);
    var total = sum;
    if HALVES == 1u {
        total = fma(f32(first), unit.scale.x * scale, total);
        total = fma(f32(second), unit.scale.y * scale, total);
    } else {
        total = fma(f32(first + second), unit.scale.x * scale, total);
    }
    if AFFINE == 1u {
        let x_first = extractBits(bitcast<i32>(x.parts.y), 0u, 16u);
        let x_second = extractBits(bitcast<i32>(x.parts.y), 16u, 16u);
        if HALVES == 1u {
            total = fma(unit.offset.x, scale * f32(x_first), total);
            total = fma(unit.offset.y, scale * f32(x_second), total);
        } else {
            total = fma(unit.offset.x, scale * f32(x_first + x_second), total);
        }
    }
    return total;
}
