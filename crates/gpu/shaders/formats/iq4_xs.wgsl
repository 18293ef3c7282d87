// IQ4_XS: table values; scales of 6 bits for 8 units, in two words with their 16-bit scale.

fn load(unit: u32) -> Unit {
    var low: vec4<u32>;
    var high: vec4<u32>;
    looked_up(w4[(p.a >> 2u) + unit], &low, &high);
    let place = p.b + 2u * (unit >> 3u);
    let first = w[place];
    let b = unit & 7u;
    let code = ((w[place + 1u] >> (4u * b)) & 15u) | (((first >> (16u + 2u * b)) & 3u) << 4u);
    let scale = half(first & 0xffffu) * f32(i32(code) - 32);
    return Unit(low, high, vec2(scale), vec2(0.0));
}
