// The `used` largest logits of a row in falling order, and the softmax over them. Logits are read
// as bits. A thread of the row's GROUP has EACH neighbouring experts. At least as many threads as
// experts are wanted have a best one that is no worse than the last expert that is chosen, so only
// the experts of so many threads need be compared. A thread counts what is before its own.

// Experts of a thread.
const EACH: u32 = (EXPERTS + GROUP - 1u) / GROUP;
const ROWS: u32 = THREADS / GROUP;
// Behind every logit's key; one more is still a number.
const BEYOND: u32 = 0xfffffffeu;

// The best key of each thread.
var<workgroup> best: array<u32, THREADS>;
// Of the threads with the best keys: which.
var<workgroup> owners: array<u32, THREADS>;
// Their keys; then the chosen ones in order, and what the softmax adds up.
var<workgroup> keys: array<u32, ROWS * GROUP * EACH>;
var<workgroup> nan: array<atomic<u32>, ROWS>;

// The logit of a key, but for NaN.
fn logit_of(key: u32) -> f32 {
    let value = ~key;
    return bitcast<f32>(select(~value, value & 0x7fffffffu, (value >> 31u) == 1u));
}

// All threads of the workgroup call it together.
fn choose(row: u32, here: bool, thread: u32) {
    let lane = thread % GROUP;
    let group = thread / GROUP;
    let first_key = group * GROUP * EACH;
    if lane == 0u {
        atomicStore(&nan[group], 0u);
    }
    var bad = false;
    var mine = BEYOND;
    var own: array<u32, EACH>;
    for (var k = 0u; k < EACH; k++) {
        let i = lane * EACH + k;
        own[k] = BEYOND;
        if here && i < EXPERTS {
            let bits = logits[row * EXPERTS + i];
            own[k] = falling(bits);
            bad = bad || is_nan_bits(bits);
        }
        mine = min(mine, own[k]);
    }
    best[thread] = mine;
    workgroupBarrier();
    if bad {
        atomicOr(&nan[group], 1u);
    }
    // Of equal keys the lower thread's is before.
    var rank = 0u;
    for (var j = 0u; j < GROUP; j++) {
        let least = select(mine, mine + 1u, j < lane);
        rank += select(0u, 1u, best[group * GROUP + j] < least);
    }
    if rank < p.used {
        owners[group * GROUP + rank] = lane;
        for (var k = 0u; k < EACH; k++) {
            keys[first_key + rank * EACH + k] = own[k];
        }
    }
    workgroupBarrier();
    let count = min(p.used, GROUP) * EACH;
    var ranks: array<u32, EACH>;
    for (var k = 0u; k < EACH; k++) {
        let at = lane + k * GROUP;
        ranks[k] = p.used;
        if at < count {
            own[k] = keys[first_key + at];
            ranks[k] = before_key(own[k], at, group, count);
        }
    }
    workgroupBarrier();
    for (var k = 0u; k < EACH; k++) {
        let at = lane + k * GROUP;
        if ranks[k] < p.used {
            keys[first_key + ranks[k]] = own[k];
            if here {
                let expert = owners[group * GROUP + at / EACH] * EACH + at % EACH;
                take(row * p.used + ranks[k], expert);
            }
        }
    }
    workgroupBarrier();
    soften(row, here, lane, group);
}

// How many keys of the row's are before one of them.
fn before_key(key: u32, at: u32, group: u32, count: u32) -> u32 {
    let owner = owners[group * GROUP + at / EACH];
    var rank = 0u;
    for (var j = 0u; j < count; j += EACH) {
        let other = owners[group * GROUP + j / EACH];
        for (var k = 0u; k < EACH; k++) {
            let earlier = other < owner || (other == owner && k < at % EACH);
            let least = select(key, key + 1u, earlier);
            rank += select(0u, 1u, keys[group * GROUP * EACH + j + k] < least);
        }
    }
    return rank;
}

// The softmax over the row's chosen keys, which takes their place.
fn soften(row: u32, here: bool, lane: u32, group: u32) {
    let first_key = group * GROUP * EACH;
    let largest = logit_of(keys[first_key]);
    let bad = atomicLoad(&nan[group]) != 0u;
    workgroupBarrier();
    for (var j = lane; j < p.used; j += GROUP) {
        keys[first_key + j] = bitcast<u32>(exp(logit_of(keys[first_key + j]) - largest));
    }
    workgroupBarrier();
    var total = 0.0;
    for (var j = 0u; j < p.used; j++) {
        total += bitcast<f32>(keys[first_key + j]);
    }
    if here {
        for (var j = lane; j < p.used; j += GROUP) {
            let weight = bitcast<f32>(keys[first_key + j]) / total;
            weights[row * p.used + j] = select(bitcast<u32>(weight), 0x7fc00000u, bad);
        }
    }
}
