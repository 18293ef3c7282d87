// Q4_K: byte k has codes k and k + 16 of its unit.

fn load(unit: u32) -> Unit {
    let codes = w4[(p.a >> 2u) + unit];
    let parts = affine(p.b, unit);
    let low = codes & vec4(0x0f0f0f0fu);
    let high = (codes >> vec4(4u)) & vec4(0x0f0f0f0fu);
    return Unit(low, high, vec2(parts.scale), vec2(parts.offset));
}
