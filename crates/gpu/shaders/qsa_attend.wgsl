// Attention of a row: a workgroup has some query heads of one key/value head, and one split of the
// row's positions, or all splits one after the other (WHOLE). Tile after tile of a split, 8 lanes
// take the dot products of a position, each key is read once; then each thread adds up a unit of 4
// values for some heads. Rows that are not there are not read.

const LANES: u32 = THREADS / TILE;
const HEADS: u32 = KV_HEADS * GROUP;
// Groups of query heads of a key/value head.
const PARTS: u32 = (GROUP + TOGETHER - 1u) / TOGETHER;
// Threads that add up the same unit for other heads, and heads of a thread.
const SETS: u32 = THREADS / UNITS;
const OWN: u32 = (TOGETHER + SETS - 1u) / SETS;
// Units of a lane, and values of a thread that are on their way at once.
const STEPS: u32 = (UNITS + LANES - 1u) / LANES;
const BATCH: u32 = 4u;

var<workgroup> query: array<vec4<f32>, TOGETHER * UNITS>;
var<workgroup> partial: array<f32, THREADS * TOGETHER>;
var<workgroup> weights: array<f32, TILE * TOGETHER>;
var<workgroup> places: array<u32, TILE>;
var<workgroup> largest: array<f32, TOGETHER>;
var<workgroup> total: array<f32, TOGETHER>;
var<workgroup> factor: array<f32, TOGETHER>;
var<workgroup> all_largest: array<f32, TOGETHER>;
var<workgroup> all_total: array<f32, TOGETHER>;
var<workgroup> all_factors: array<vec2<f32>, TOGETHER>;

// First value of the first head's query, and the number of heads.
var<private> query_first: u32 = 0u;
var<private> heads: u32 = 1u;

fn source(head: u32, d: u32) -> f32 {
    return q[query_first + min(head, heads - 1u) * 2u * HEAD + d];
}

fn norm_weight(d: u32) -> f32 {
    return norm[d];
}

fn place(seen: Seen, row: u32, i: u32) -> u32 {
    if i < seen.picked {
        let block = selection[row * p.selection_stride + 1u + i / BLOCK];
        return block * BLOCK + i % BLOCK;
    }
    return seen.tail + i - seen.picked;
}

fn add_product(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Queries of all heads, normalised and rotated.
fn load_queries(pos: u32, thread: u32) {
    for (var i = thread; i < TOGETHER * NORM_LANES; i += THREADS) {
        partial[i] = lane_squares(i / NORM_LANES, i % NORM_LANES, HEAD);
    }
    workgroupBarrier();
    for (var h = thread; h < TOGETHER; h += THREADS) {
        var sum = partial[h * NORM_LANES];
        for (var lane = 1u; lane < NORM_LANES; lane++) {
            sum += partial[h * NORM_LANES + lane];
        }
        factor[h] = norm_scale(sum, HEAD);
    }
    workgroupBarrier();
    for (var i = thread; i < TOGETHER * UNITS; i += THREADS) {
        let head = i / UNITS;
        var values = vec4(0.0);
        for (var c = 0u; c < 4u; c++) {
            let d = 4u * (i % UNITS) + c;
            values[c] = turned(head, d, HEAD, factor[head], pos * p.angle_stride, PAIRS);
        }
        query[i] = values;
    }
    workgroupBarrier();
}

// Scores of the positions in `places`, as dot products.
fn score_tile(key_head: u32, count: u32, thread: u32) {
    var dots: array<f32, TOGETHER>;
    for (var h = 0u; h < TOGETHER; h++) {
        dots[h] = 0.0;
    }
    if thread / LANES < count {
        let key_at = places[thread / LANES] + key_head * HEAD_ELEMENTS;
        for (var i = 0u; i < STEPS; i++) {
            let u = thread % LANES + i * LANES;
            if UNITS % LANES == 0u || u < UNITS {
                let key = load(key_at, u);
                for (var h = 0u; h < TOGETHER; h++) {
                    dots[h] = add_product(query[h * UNITS + u], key, dots[h]);
                }
            }
        }
    }
    for (var h = 0u; h < TOGETHER; h++) {
        partial[h * THREADS + thread] = dots[h];
    }
    workgroupBarrier();
    for (var i = thread; i < TOGETHER * TILE; i += THREADS) {
        let first = i * LANES;
        var sum = partial[first];
        for (var lane = 1u; lane < LANES; lane++) {
            sum += partial[first + lane];
        }
        weights[i] = sum * p.scale;
    }
    workgroupBarrier();
}

// Weights in place of the scores, relative to the largest so far, and factors for the sums.
fn weigh_tile(count: u32, thread: u32) {
    for (var h = thread; h < TOGETHER; h += THREADS) {
        var most = largest[h];
        for (var j = 0u; j < count; j++) {
            most = max(most, weights[h * TILE + j]);
        }
        factor[h] = exp(largest[h] - most);
        largest[h] = most;
    }
    workgroupBarrier();
    for (var i = thread; i < TOGETHER * TILE; i += THREADS) {
        if i % TILE < count {
            weights[i] = exp(weights[i] - largest[i / TILE]);
        }
    }
    workgroupBarrier();
    for (var h = thread; h < TOGETHER; h += THREADS) {
        var sum = weights[h * TILE];
        for (var j = 1u; j < count; j++) {
            sum += weights[h * TILE + j];
        }
        total[h] = fma(total[h], factor[h], sum);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.z;
    let kv_head = group.y / PARTS;
    let piece = group.y % PARTS;
    let first_head = kv_head * GROUP + piece * TOGETHER;
    heads = min(TOGETHER, GROUP - piece * TOGETHER);
    query_first = (row * HEADS + first_head) * 2u * HEAD;
    let run = find_run(row);
    let pos = run.first_pos + row - run.first_row;
    let seen = find_seen(row, pos);
    let size = split_size(seen.count);
    let splits = (seen.count + size - 1u) / size;
    if WHOLE == 0u && group.x >= splits {
        return;
    }
    let first_split = select(group.x, 0u, WHOLE != 0u);
    let end_split = select(group.x + 1u, splits, WHOLE != 0u);
    load_queries(pos, thread);
    for (var h = thread; h < TOGETHER; h += THREADS) {
        all_largest[h] = LOWEST;
        all_total[h] = 0.0;
    }
    // What this thread adds up: unit `unit` of heads `lead`, `lead + SETS` and so on.
    let unit = thread % UNITS;
    let lead = thread / UNITS;
    var sums: array<vec4<f32>, OWN>;
    var all_sums: array<vec4<f32>, OWN>;
    for (var i = 0u; i < OWN; i++) {
        sums[i] = vec4(0.0);
        all_sums[i] = vec4(0.0);
    }
    for (var split = first_split; split < end_split; split++) {
        for (var h = thread; h < TOGETHER; h += THREADS) {
            largest[h] = LOWEST;
            total[h] = 0.0;
        }
        for (var i = 0u; i < OWN; i++) {
            sums[i] = vec4(0.0);
        }
        let end = min((split + 1u) * size, seen.count);
        for (var start = split * size; start < end; start += TILE) {
            let count = min(TILE, end - start);
            if thread < count {
                let token = run.kv_first + place(seen, row, start + thread);
                places[thread] = token * 2u * KV_HEADS * HEAD_ELEMENTS;
            }
            workgroupBarrier();
            score_tile(kv_head, count, thread);
            weigh_tile(count, thread);
            if lead < SETS {
                for (var i = 0u; i < OWN; i++) {
                    sums[i] *= factor[min(lead + i * SETS, TOGETHER - 1u)];
                }
                let value_at = (KV_HEADS + kv_head) * HEAD_ELEMENTS;
                for (var first = 0u; first < count; first += BATCH) {
                    var values: array<vec4<f32>, BATCH>;
                    for (var b = 0u; b < BATCH; b++) {
                        values[b] = load(places[min(first + b, count - 1u)] + value_at, unit);
                    }
                    for (var b = 0u; b < BATCH; b++) {
                        // Behind the end nothing is added, not even zero times a value.
                        if first + b < count {
                            for (var i = 0u; i < OWN; i++) {
                                let head = min(lead + i * SETS, TOGETHER - 1u);
                                let weight = weights[head * TILE + first + b];
                                sums[i] = fma(vec4(weight), values[b], sums[i]);
                            }
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        if WHOLE != 0u {
            for (var h = thread; h < TOGETHER; h += THREADS) {
                let factors = join_factors(all_largest[h], largest[h]);
                all_total[h] = join_total(factors, all_total[h], total[h]);
                all_largest[h] = max(all_largest[h], largest[h]);
                all_factors[h] = factors;
            }
            workgroupBarrier();
            for (var i = 0u; i < OWN; i++) {
                let factors = all_factors[min(lead + i * SETS, TOGETHER - 1u)];
                all_sums[i] = join_sums(factors, all_sums[i], sums[i]);
            }
            workgroupBarrier();
        }
    }
    if lead >= SETS {
        return;
    }
    for (var i = 0u; i < OWN; i++) {
        let h = lead + i * SETS;
        if h < heads {
            store_part(row, group.x, first_head + h, h, unit, sums[i]);
            store_whole(row, first_head + h, h, unit, seen.count, all_sums[i]);
        }
    }
}
