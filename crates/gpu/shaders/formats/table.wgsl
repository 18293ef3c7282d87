// The 16 values of IQ4_NL and IQ4_XS; book[byte] has those of both nibbles in its low bytes.

fn looked_up(
    codes: vec4<u32>,
    unit_low: ptr<function, vec4<u32>>,
    unit_high: ptr<function, vec4<u32>>,
) {
    for (var i = 0u; i < 4u; i++) {
        let word = codes[i];
        let b0 = book[word & 0xffu];
        let b1 = book[(word >> 8u) & 0xffu];
        let b2 = book[(word >> 16u) & 0xffu];
        let b3 = book[word >> 24u];
        (*unit_low)[i] =
            (b0 & 0xffu) | ((b1 & 0xffu) << 8u) | ((b2 & 0xffu) << 16u) | (b3 << 24u);
        (*unit_high)[i] =
            (b0 >> 8u) | (b1 & 0xff00u) | ((b2 & 0xff00u) << 8u) | ((b3 & 0xff00u) << 16u);
    }
}
