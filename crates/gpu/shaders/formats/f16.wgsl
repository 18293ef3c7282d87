// F16.

fn load(unit: u32) -> Unit {
    var out: Unit;
    for (var i = 0u; i < 4u; i++) {
        let words = w4[((p.a + i * p.stride) >> 2u) + unit];
        let x = words & vec4(0xffffu);
        let y = words >> vec4(16u);
        out.values[2u * i] = vec4(half(x.x), half(y.x), half(x.y), half(y.y));
        out.values[2u * i + 1u] = vec4(half(x.z), half(y.z), half(x.w), half(y.w));
    }
    return out;
}
