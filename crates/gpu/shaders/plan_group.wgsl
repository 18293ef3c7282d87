// Pairs sorted by expert and cut into tiles of up to p.tile pairs of one expert. One workgroup: a
// thread counts and places the pairs of its experts, so the order is always the same.

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let pairs = p.rows * p.used;
    for (var e = thread; e < p.experts; e += THREADS) {
        var count = 0u;
        for (var i = 0u; i < pairs; i++) {
            count += select(0u, 1u, experts[i] == e);
        }
        starts[e] = vec2(count, 0u);
    }
    storageBarrier();
    if thread == 0u {
        var first = 0u;
        var tile = 0u;
        for (var e = 0u; e < p.experts; e++) {
            let count = starts[e].x;
            starts[e] = vec2(first, tile);
            first += count;
            tile += (count + p.tile - 1u) / p.tile;
        }
        starts[p.experts] = vec2(first, tile);
    }
    storageBarrier();
    for (var e = thread; e < p.experts; e += THREADS) {
        let first = starts[e].x;
        let end = starts[e + 1u].x;
        if first == end {
            continue;
        }
        var place = first;
        for (var i = 0u; i < pairs; i++) {
            if experts[i] == e {
                order[place] = i;
                place++;
            }
        }
        var tile = starts[e].y;
        for (var at = first; at < end; at += p.tile) {
            tiles[tile] = vec4(e, at, min(p.tile, end - at), 0u);
            tile++;
        }
    }
    for (var i = starts[p.experts].y + thread; i < p.tiles; i += THREADS) {
        tiles[i] = vec4(0u);
    }
}
