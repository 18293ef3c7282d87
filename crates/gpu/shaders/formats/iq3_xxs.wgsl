// IQ3_XXS: rows of four magnitudes by an index of 8 bits; 7 signs for 8 values, whose number is
// even; a scale of 4 bits.

fn magnitudes(word: u32) -> vec4<u32> {
    let bytes = (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
    return vec4(book[bytes.x], book[bytes.y], book[bytes.z], book[bytes.w]);
}

fn eight_signs(seven: u32) -> u32 {
    return seven | ((countOneBits(seven) & 1u) << 7u);
}

fn signed_all(m: vec4<u32>, first: u32, second: u32) -> vec4<u32> {
    return vec4(
        signed(m.x, first),
        signed(m.y, first >> 4u),
        signed(m.z, second),
        signed(m.w, second >> 4u),
    );
}

fn load(unit: u32) -> Unit {
    let word = w[p.b + unit];
    let s = (vec4(word) >> vec4(0u, 7u, 14u, 21u)) & vec4(127u);
    let low = signed_all(magnitudes(w[p.a + 2u * unit]), eight_signs(s.x), eight_signs(s.y));
    let high = signed_all(magnitudes(w[p.a + 2u * unit + 1u]), eight_signs(s.z), eight_signs(s.w));
    let scale = (half_at(p.c, unit >> 3u) * (0.5 + f32(word >> 28u))) * 0.5;
    return Unit(low, high, vec2(scale), vec2(0.0));
}
