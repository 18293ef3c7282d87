// F32.

fn load(unit: u32) -> Unit {
    var out: Unit;
    for (var i = 0u; i < 8u; i++) {
        out.values[i] = bitcast<vec4<f32>>(w4[((p.a + i * p.stride) >> 2u) + unit]);
    }
    return out;
}
