// BF16.

fn load(unit: u32) -> Unit {
    var out: Unit;
    for (var i = 0u; i < 4u; i++) {
        let words = w4[((p.a + i * p.stride) >> 2u) + unit];
        let x = bitcast<vec4<f32>>(words << vec4(16u));
        let y = bitcast<vec4<f32>>(words & vec4(0xffff0000u));
        out.values[2u * i] = vec4(x.x, y.x, x.y, y.y);
        out.values[2u * i + 1u] = vec4(x.z, y.z, x.w, y.w);
    }
    return out;
}
