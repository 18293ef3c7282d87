// Four values of a unit. The product is rounded before the sum: p.zero, which the compiler does not
// know to be zero, keeps it from fusing the two.
fn values(unit: Unit, k: u32) -> vec4<f32> {
    let first = k < 4u;
    let word = select(unit.high[k & 3u], unit.low[k & 3u], first);
    let scale = select(unit.scale.y, unit.scale.x, first);
    let product = vec4<f32>(unpack4xI8(word)) * scale;
    if AFFINE == 1u {
        let rounded = bitcast<vec4<f32>>(bitcast<vec4<u32>>(product) ^ vec4(p.zero));
        return rounded + select(unit.offset.y, unit.offset.x, first);
    }
    return product;
}
