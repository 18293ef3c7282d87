// The whole plan of a window with at most THREADS pairs, by one workgroup: experts of its rows, pairs
// sorted by expert, and tiles of up to p.tile pairs of one expert. A pair is a thread: it counts
// the pairs before it. Further workgroups do what is needed besides.

var<workgroup> expert_of: array<u32, THREADS>;
// The pair's place in the order, and 1 where it begins a tile.
var<workgroup> places: array<vec2<u32>, THREADS>;

fn take(pair: u32, expert: u32) {
    experts[pair] = expert;
    expert_of[pair] = expert;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    if group.x > 0u {
        beside(group.x - 1u, thread);
        return;
    }
    for (var row = 0u; row < p.rows; row += ROWS) {
        choose(row + thread / GROUP, row + thread / GROUP < p.rows, thread);
    }
    let pairs = p.rows * p.used;
    var mine = 0xffffffffu;
    if thread < pairs {
        mine = expert_of[thread];
    }
    var place = 0u;
    var rank = 0u;
    var count = 0u;
    for (var i = 0u; i < pairs; i++) {
        let other = expert_of[i];
        let same = other == mine;
        count += select(0u, 1u, same);
        rank += select(0u, 1u, same && i < thread);
        place += select(0u, 1u, other < mine);
    }
    place += rank;
    let begins = rank % p.tile == 0u;
    places[thread] = vec2(place, select(0u, 1u, begins));
    workgroupBarrier();
    var tile = 0u;
    var all = 0u;
    for (var i = 0u; i < pairs; i++) {
        tile += select(0u, places[i].y, places[i].x < place);
        all += places[i].y;
    }
    if thread < pairs {
        order[place] = thread;
        if begins {
            tiles[tile] = vec4(mine, place, min(p.tile, count - rank), 0u);
        }
    }
    for (var i = all + thread; i < p.tiles; i += THREADS) {
        tiles[i] = vec4(0u);
    }
}
