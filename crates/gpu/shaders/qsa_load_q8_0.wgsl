// Unit u of the head that begins at element `head`: codes, and behind them a scale for 8 units.

fn load(head: u32, u: u32) -> vec4<f32> {
    let scales = unpack2x16float(cache[head + UNITS + u / 16u]);
    let scale = select(scales.x, scales.y, (u / 8u) % 2u == 1u);
    return vec4<f32>(unpack4xI8(cache[head + u])) * scale;
}
