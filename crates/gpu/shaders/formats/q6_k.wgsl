// Q6_K: low nibbles as in Q4_K, two words of high bits, two 8-bit scales, less 32.

fn load(unit: u32) -> Unit {
    let codes = w4[(p.a >> 2u) + unit];
    let shifts = vec4(0u, 2u, 4u, 6u);
    let two = vec4(0x03030303u);
    let first = (vec4(w[p.b + 2u * unit]) >> shifts) & two;
    let second = (vec4(w[p.b + 2u * unit + 1u]) >> shifts) & two;
    let low = (codes & vec4(0x0f0f0f0fu)) | (first << vec4(4u));
    let high = ((codes >> vec4(4u)) & vec4(0x0f0f0f0fu)) | (second << vec4(4u));
    let scales = w[p.c + (unit >> 1u)] >> (16u * (unit & 1u));
    let x = f32(extractBits(bitcast<i32>(scales), 0u, 8u));
    let y = f32(extractBits(bitcast<i32>(scales), 8u, 8u));
    let d = half_at(p.d, unit >> 3u);
    return Unit(minus(low, 32u), minus(high, 32u), vec2(d * x, d * y), vec2(0.0));
}
