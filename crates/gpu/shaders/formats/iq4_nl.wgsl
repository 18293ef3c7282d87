// IQ4_NL: table values, a 16-bit scale.

fn load(unit: u32) -> Unit {
    var low: vec4<u32>;
    var high: vec4<u32>;
    looked_up(w4[(p.a >> 2u) + unit], &low, &high);
    return Unit(low, high, vec2(half_at(p.b, unit)), vec2(0.0));
}
