// Pairs sorted by expert and cut into tiles of up to p.tile pairs of one expert, by one workgroup.
// Pairs of an expert come in any order: no result depends on it.

const EACH: u32 = (EXPERTS + THREADS - 1u) / THREADS;

var<workgroup> counts: array<atomic<u32>, EXPERTS>;
// Pairs and tiles of the experts of a thread and of all threads before it.
var<workgroup> sums: array<vec2<u32>, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let pairs = p.rows * p.used;
    for (var e = thread; e < EXPERTS; e += THREADS) {
        atomicStore(&counts[e], 0u);
    }
    workgroupBarrier();
    for (var i = thread; i < pairs; i += THREADS) {
        atomicAdd(&counts[experts[i]], 1u);
    }
    workgroupBarrier();
    let first = thread * EACH;
    var mine = vec2(0u, 0u);
    for (var e = first; e < min(first + EACH, EXPERTS); e++) {
        let count = atomicLoad(&counts[e]);
        mine += vec2(count, (count + p.tile - 1u) / p.tile);
    }
    sums[thread] = mine;
    workgroupBarrier();
    for (var step = 1u; step < THREADS; step *= 2u) {
        var before = vec2(0u, 0u);
        if thread >= step {
            before = sums[thread - step];
        }
        workgroupBarrier();
        sums[thread] += before;
        workgroupBarrier();
    }
    var at = sums[thread] - mine;
    for (var e = first; e < min(first + EACH, EXPERTS); e++) {
        let count = atomicLoad(&counts[e]);
        for (var k = 0u; k < count; k += p.tile) {
            tiles[at.y] = vec4(e, at.x + k, min(p.tile, count - k), 0u);
            at.y++;
        }
        // From now on the place of the expert's next pair.
        atomicStore(&counts[e], at.x);
        at.x += count;
    }
    workgroupBarrier();
    for (var i = thread; i < pairs; i += THREADS) {
        let place = atomicAdd(&counts[experts[i]], 1u);
        order[place] = i;
    }
    for (var i = sums[THREADS - 1u].y + thread; i < p.tiles; i += THREADS) {
        tiles[i] = vec4(0u);
    }
}
