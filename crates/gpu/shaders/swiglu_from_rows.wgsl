// A row has its gates, then its up projections.

fn gate_and_up(i: u32) -> Pair {
    let gate = i / p.width * p.width + i;
    return Pair(x[gate], x[gate + p.width]);
}
