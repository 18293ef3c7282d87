// Each pair times its expert's matrix; a tile is some pairs of one expert.

struct Tile {
    base: u32,
    first: u32,
    count: u32,
}

fn find_tile(index: u32) -> Tile {
    let tile = tiles[index];
    // Wraps around below the first expert of this part of the stack.
    let expert = tile.x - (p.experts & 0xffffu);
    let here = expert < p.experts / 65536u;
    return Tile(expert * p.weight_rows, tile.y, select(0u, tile.z, here));
}

fn x_row(tile: Tile, t: u32) -> u32 {
    return order[tile.first + t] / p.pairs_per_x;
}

fn y_row(tile: Tile, t: u32) -> u32 {
    return order[tile.first + t];
}

// In windows of few rows most tiles have a single pair.
fn multiplied(tile: Tile) -> u32 {
    return tile.count;
}
