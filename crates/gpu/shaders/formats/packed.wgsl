// Any format: codes as bytes; scales and offsets as f32.

fn load(unit: u32) -> Unit {
    let parts = bitcast<vec4<f32>>(w4[(p.b >> 2u) + unit]);
    let codes = (p.a >> 2u) + unit;
    return Unit(w4[codes], w4[codes + (p.stride >> 2u)], parts.xy, parts.zw);
}
