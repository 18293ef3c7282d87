// The runs of a window, two vectors for each.

struct Run {
    // In the window, and its position in the sequence.
    first_row: u32,
    first_pos: u32,
    // Rows of the slot's first token in the cache and among the raw index keys.
    kv_first: u32,
    index_first: u32,
    // Row of the slot's first pooled key.
    block_first: u32,
}

fn find_run(row: u32) -> Run {
    var i = 0u;
    while i + 1u < p.runs && runs[2u * (i + 1u)].x <= row {
        i += 1u;
    }
    let a = runs[2u * i];
    return Run(a.x, a.y, a.z, a.w, runs[2u * i + 1u].x);
}
