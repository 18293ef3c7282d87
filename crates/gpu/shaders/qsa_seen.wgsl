// The positions that a row attends, as a list: those of its blocks, then the tail. The list is cut
// into splits of a length that follows from the row alone.

const EVERYTHING: u32 = 0xffffffffu;
const NOTHING: u32 = 0xfffffffeu;

struct Seen {
    // Positions in blocks, the first position of the tail, all positions.
    picked: u32,
    tail: u32,
    count: u32,
}

fn find_seen(row: u32, pos: u32) -> Seen {
    let all = pos + 1u;
    if p.everything != 0u {
        return Seen(0u, 0u, all);
    }
    let blocks = selection[row * p.selection_stride];
    if blocks == EVERYTHING {
        return Seen(0u, 0u, all);
    }
    if blocks == NOTHING {
        return Seen(0u, 0u, 0u);
    }
    let tail = all / BLOCK * BLOCK;
    return Seen(blocks * BLOCK, tail, blocks * BLOCK + all - tail);
}

// Positions of a split: a multiple of a tile, such that there are no more than MAX_SPLITS.
fn split_size(count: u32) -> u32 {
    var size = TILE;
    while (count + size - 1u) / size > MAX_SPLITS {
        size *= 2u;
    }
    return size;
}
