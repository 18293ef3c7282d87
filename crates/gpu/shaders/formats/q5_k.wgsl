// Q5_K: as Q4_K, and a word of fifth bits: bit j of byte i belongs to code 4j + i.

fn load(unit: u32) -> Unit {
    let codes = w4[(p.a >> 2u) + unit];
    let fifth = vec4(w[p.b + unit]);
    let parts = affine(p.c, unit);
    let one = vec4(0x01010101u);
    let low = (codes & vec4(0x0f0f0f0fu)) | (((fifth >> vec4(0u, 1u, 2u, 3u)) & one) << vec4(4u));
    let high = ((codes >> vec4(4u)) & vec4(0x0f0f0f0fu))
        | (((fifth >> vec4(4u, 5u, 6u, 7u)) & one) << vec4(4u));
    return Unit(low, high, vec2(parts.scale), vec2(parts.offset));
}
