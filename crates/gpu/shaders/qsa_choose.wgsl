// The `keep` best of a row's scores, equal ones lowest first, in rising order. A workgroup per row
// finds the key of the last one that is taken, digit after digit from counts of digits, and then
// takes what is before it and as many equal ones as are due.

const BINS: u32 = 2048u;
const THREAD_BINS: u32 = BINS / THREADS;

const EVERYTHING: u32 = 0xffffffffu;
const NOTHING: u32 = 0xfffffffeu;

var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> nan: atomic<u32>;
// The bin in which the last one lies, and how many of it are due.
var<workgroup> found: vec2<u32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = p.first_row + group.x;
    let run = find_run(row);
    let seen = (run.first_pos + row - run.first_row + 1u) / BLOCK;
    let out = row * p.selection_stride;
    if seen <= p.keep {
        if thread == 0u {
            selection[out] = EVERYTHING;
        }
        return;
    }
    let first = group.x * p.stride;
    if thread == 0u {
        atomicStore(&nan, 0u);
    }
    workgroupBarrier();
    var bad = 0u;
    for (var i = thread; i < seen; i += THREADS) {
        if is_nan_bits(scores[first + i]) {
            bad = 1u;
        }
    }
    if bad != 0u {
        atomicStore(&nan, 1u);
    }
    workgroupBarrier();
    if atomicLoad(&nan) != 0u || p.keep == 0u {
        if thread == 0u {
            selection[out] = select(0u, NOTHING, atomicLoad(&nan) != 0u);
        }
        return;
    }
    // Of the last key that is taken: the digits that are known, and how many with them are due.
    var known = 0u;
    var mask = 0u;
    var due = p.keep;
    for (var digit = 0u; digit < 3u; digit++) {
        // Digits of 11, 11 and 10 bits.
        let shift = select(10u * (2u - digit), 21u, digit == 0u);
        let digit_mask = select(2047u, 1023u, digit == 2u);
        for (var i = thread; i < BINS; i += THREADS) {
            atomicStore(&bins[i], 0u);
        }
        workgroupBarrier();
        // Equal digits in a row are counted at once: all threads may meet the same one.
        var bin = 0u;
        var count = 0u;
        for (var i = thread; i < seen; i += THREADS) {
            let key = falling(scores[first + i]);
            if (key & mask) == known {
                let next = (key >> shift) & digit_mask;
                if next != bin {
                    if count > 0u {
                        atomicAdd(&bins[bin], count);
                    }
                    bin = next;
                    count = 0u;
                }
                count += 1u;
            }
        }
        if count > 0u {
            atomicAdd(&bins[bin], count);
        }
        workgroupBarrier();
        var own = 0u;
        for (var i = 0u; i < THREAD_BINS; i++) {
            own += atomicLoad(&bins[thread * THREAD_BINS + i]);
        }
        let until = sum_up_to(thread, own);
        if until - own < due && due <= until {
            var left = due - (until - own);
            var at = thread * THREAD_BINS;
            while left > atomicLoad(&bins[at]) {
                left -= atomicLoad(&bins[at]);
                at += 1u;
            }
            found = vec2(at, left);
        }
        workgroupBarrier();
        known |= found.x << shift;
        mask |= digit_mask << shift;
        due = found.y;
        workgroupBarrier();
    }
    // Each thread goes through a piece of the row.
    let piece = (seen + THREADS - 1u) / THREADS;
    let start = min(thread * piece, seen);
    let end = min(start + piece, seen);
    var better = 0u;
    var equal = 0u;
    for (var i = start; i < end; i++) {
        let key = falling(scores[first + i]);
        better += select(0u, 1u, key < known);
        equal += select(0u, 1u, key == known);
    }
    let better_before = sum_up_to(thread, better) - better;
    workgroupBarrier();
    var equal_before = sum_up_to(thread, equal) - equal;
    var to = out + 1u + better_before + min(equal_before, due);
    for (var i = start; i < end; i++) {
        let key = falling(scores[first + i]);
        let take = key < known || (key == known && equal_before < due);
        equal_before += select(0u, 1u, key == known);
        if take {
            selection[to] = i;
            to += 1u;
        }
    }
    if thread == 0u {
        selection[out] = p.keep;
    }
}
