// Gates are where the result goes.

fn gate_and_up(i: u32) -> Pair {
    return Pair(out[i], x[i]);
}
