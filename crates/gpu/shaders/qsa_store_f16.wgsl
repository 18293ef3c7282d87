// A word of a head that is stored as halves.

fn stored(i: u32) -> u32 {
    return to_half(ready[2u * i]) | (to_half(ready[2u * i + 1u]) << 16u);
}
