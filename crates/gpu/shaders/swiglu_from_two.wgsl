// Gates and up projections lie apart.

fn gate_and_up(i: u32) -> Pair {
    return Pair(x[i], up[i]);
}
