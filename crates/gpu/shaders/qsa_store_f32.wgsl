// A word of a head that is stored as it is.

fn stored(i: u32) -> u32 {
    return bitcast<u32>(ready[i]);
}
