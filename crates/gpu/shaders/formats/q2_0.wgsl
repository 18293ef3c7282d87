// Q2_0: two words of a unit have four codes of 2 bits in each byte, less 1; a scale for two units.

fn load(unit: u32) -> Unit {
    let shifts = vec4(0u, 2u, 4u, 6u);
    let low = (vec4(w[p.a + 2u * unit]) >> shifts) & vec4(0x03030303u);
    let high = (vec4(w[p.a + 2u * unit + 1u]) >> shifts) & vec4(0x03030303u);
    return Unit(minus(low, 1u), minus(high, 1u), vec2(half_at(p.b, unit >> 1u)), vec2(0.0));
}
