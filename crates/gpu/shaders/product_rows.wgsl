// All rows of the window times one matrix.

struct Tile {
    base: u32,
    first: u32,
    count: u32,
}

fn find_tile(index: u32) -> Tile {
    return Tile(0u, index * T, min(T, call.tokens - index * T));
}

fn x_row(tile: Tile, t: u32) -> u32 {
    return tile.first + t;
}

fn y_row(tile: Tile, t: u32) -> u32 {
    return tile.first + t;
}

// Most tiles are full: rows beyond the end are multiplied, too.
fn multiplied(tile: Tile) -> u32 {
    return T;
}
