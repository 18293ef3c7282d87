// IQ2_S: rows of eight magnitudes by an index of 10 bits; a sign for each; two scales of 4 bits.

fn load(unit: u32) -> Unit {
    let high_bits = byte_at(p.c, unit);
    let signs = w[p.b + unit];
    let high_shifts = vec4(0u, 2u, 4u, 6u);
    let rows = ((vec4(w[p.a + unit]) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu))
        | (((vec4(high_bits) >> high_shifts) & vec4(3u)) << vec4(8u));
    let low = vec4(
        signed(book[2u * rows.x], signs),
        signed(book[2u * rows.x + 1u], signs >> 4u),
        signed(book[2u * rows.y], signs >> 8u),
        signed(book[2u * rows.y + 1u], signs >> 12u),
    );
    let high = vec4(
        signed(book[2u * rows.z], signs >> 16u),
        signed(book[2u * rows.z + 1u], signs >> 20u),
        signed(book[2u * rows.w], signs >> 24u),
        signed(book[2u * rows.w + 1u], signs >> 28u),
    );
    let codes = byte_at(p.d, unit);
    let d = half_at(p.e, unit >> 3u);
    let x = (d * (0.5 + f32(codes & 15u))) * 0.25;
    let y = (d * (0.5 + f32(codes >> 4u))) * 0.25;
    return Unit(low, high, vec2(x, y), vec2(0.0));
}
