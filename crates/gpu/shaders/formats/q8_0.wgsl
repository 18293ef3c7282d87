// Q8_0: codes as they are, a 16-bit scale.

fn load(unit: u32) -> Unit {
    let codes = (p.a >> 2u) + unit;
    let scale = half_at(p.b, unit);
    return Unit(w4[codes], w4[codes + (p.stride >> 2u)], vec2(scale), vec2(0.0));
}
