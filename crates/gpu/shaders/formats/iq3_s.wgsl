// IQ3_S: rows of four magnitudes by an index of 9 bits; a sign for each; scales of 4 bits.

fn magnitudes(word: u32, ninth: u32) -> vec4<u32> {
    return vec4(
        book[(word & 0xffu) | ((ninth & 1u) << 8u)],
        book[((word >> 8u) & 0xffu) | ((ninth & 2u) << 7u)],
        book[((word >> 16u) & 0xffu) | ((ninth & 4u) << 6u)],
        book[(word >> 24u) | ((ninth & 8u) << 5u)],
    );
}

fn signed_all(m: vec4<u32>, signs: u32) -> vec4<u32> {
    return vec4(
        signed(m.x, signs),
        signed(m.y, signs >> 4u),
        signed(m.z, signs >> 8u),
        signed(m.w, signs >> 12u),
    );
}

fn load(unit: u32) -> Unit {
    let ninth = byte_at(p.c, unit);
    let signs = w[p.b + unit];
    let low = signed_all(magnitudes(w[p.a + 2u * unit], ninth), signs);
    let high = signed_all(magnitudes(w[p.a + 2u * unit + 1u], ninth >> 4u), signs >> 16u);
    let code = (w[p.d + (unit >> 3u)] >> (4u * (unit & 7u))) & 15u;
    let scale = half_at(p.e, unit >> 3u) * f32(1u + 2u * code);
    return Unit(low, high, vec2(scale), vec2(0.0));
}
