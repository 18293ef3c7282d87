// A word of a head that is stored in blocks of 32 values: first the codes of all blocks, then their
// scales. Values are looked at as bits where they may be infinite or no numbers.

const INFINITE: u32 = 0x7f800000u;
// Magnitudes below 1e-30 count as zero: their scale is zero as a half anyway.
const NEGLIGIBLE: u32 = 0x0da24260u;

// The bits of the largest magnitude of a block.
fn peak(block: u32) -> u32 {
    var largest = 0u;
    for (var d = 32u * block; d < 32u * (block + 1u); d++) {
        largest = max(largest, bitcast<u32>(ready[d]) & 0x7fffffffu);
    }
    return largest;
}

fn scale_bits(block: u32) -> u32 {
    let largest = peak(block);
    if largest >= INFINITE {
        return 0x7e00u;
    }
    return select(to_half(bitcast<f32>(largest) / 127.0), 0u, largest < NEGLIGIBLE);
}

// To the nearest, halves away from zero.
fn code(x: f32) -> i32 {
    let whole = i32(x);
    let rest = x - f32(whole);
    return whole + select(0, 1, rest >= 0.5) - select(0, 1, rest <= -0.5);
}

fn stored(i: u32) -> u32 {
    if i >= UNITS {
        let block = 2u * (i - UNITS);
        var high = 0u;
        if 32u * (block + 1u) < HEAD {
            high = scale_bits(block + 1u);
        }
        return scale_bits(block) | (high << 16u);
    }
    let largest = peak(i / 8u);
    if largest >= INFINITE || largest < NEGLIGIBLE {
        return 0u;
    }
    let factor = 1.0 / (bitcast<f32>(largest) / 127.0);
    let at = 4u * i;
    return pack4xI8(vec4(
        code(ready[at] * factor),
        code(ready[at + 1u] * factor),
        code(ready[at + 2u] * factor),
        code(ready[at + 3u] * factor),
    ));
}
