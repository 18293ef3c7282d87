// The values of a row that are no smaller than the `count`-th largest of its pieces' largest values:
// at least so many, and all that are larger than any other. Their number comes first, or NONE if
// there is no room for them or the row has a value that no token is drawn from. Their order is not
// fixed: the host sorts them.

const NONE: u32 = 0xffffffffu;
const BINS: u32 = THREADS;

var<workgroup> bins: array<atomic<u32>, BINS>;
// The digit that is sought, and how many with it are due.
var<workgroup> found: vec2<u32>;
var<workgroup> bad: atomic<u32>;
// Pieces that have values to be listed.
var<workgroup> hits: array<u32, MOST>;
var<workgroup> hit_count: atomic<u32>;
var<workgroup> listed: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x * p.width;
    let first = group.x * p.pieces;
    let out = group.x * (1u + 2u * MOST);
    if thread == 0u {
        atomicStore(&bad, 0u);
        atomicStore(&hit_count, 0u);
        atomicStore(&listed, 0u);
    }
    // Of the key of the last piece that counts: the digits that are known, and how many are due.
    var known = 0u;
    var mask = 0u;
    var due = p.count;
    for (var digit = 0u; digit < 4u; digit++) {
        let shift = 24u - 8u * digit;
        atomicStore(&bins[thread], 0u);
        workgroupBarrier();
        for (var i = thread; i < p.pieces; i += THREADS) {
            let key = maxima[first + i];
            if key == 0u {
                atomicStore(&bad, 1u);
            }
            if (key & mask) == known {
                atomicAdd(&bins[(key >> shift) & 255u], 1u);
            }
        }
        workgroupBarrier();
        let own = atomicLoad(&bins[thread]);
        let until = sum_up_to(thread, own);
        if until - own < due && due <= until {
            found = vec2(thread, due - (until - own));
        }
        workgroupBarrier();
        known |= found.x << shift;
        mask |= 255u << shift;
        due = found.y;
        workgroupBarrier();
    }
    for (var i = thread; i < p.pieces; i += THREADS) {
        if maxima[first + i] <= known {
            let at = atomicAdd(&hit_count, 1u);
            if at < MOST {
                hits[at] = i;
            }
        }
    }
    workgroupBarrier();
    let count = min(atomicLoad(&hit_count), MOST);
    let values = (p.width + p.pieces - 1u) / p.pieces;
    for (var i = thread; i < count * values; i += THREADS) {
        let token = hits[i / values] + (i % values) * p.pieces;
        if token < p.width {
            let bits = x[row + token];
            if falling(bits) <= known {
                let at = atomicAdd(&listed, 1u);
                if at < MOST {
                    best[out + 1u + 2u * at] = token;
                    best[out + 2u + 2u * at] = bits;
                }
            }
        }
    }
    workgroupBarrier();
    if thread == 0u {
        let all = atomicLoad(&listed);
        let is_short = atomicLoad(&bad) == 0u && atomicLoad(&hit_count) <= MOST && all <= MOST;
        best[out] = select(NONE, all, is_short);
    }
}
