fn values(unit: Unit, k: u32) -> vec4<f32> {
    return unit.values[k];
}
