// Q4_0: byte k has codes k and k + 16, less 8.

fn load(unit: u32) -> Unit {
    let codes = w4[(p.a >> 2u) + unit];
    let low = minus(codes & vec4(0x0f0f0f0fu), 8u);
    let high = minus((codes >> vec4(4u)) & vec4(0x0f0f0f0fu), 8u);
    return Unit(low, high, vec2(half_at(p.b, unit)), vec2(0.0));
}
