// Scores of blocks: a workgroup takes 64 blocks, one for each thread, and up to four rows of a run,
// which are the lanes of vectors. Index heads come to workgroup memory, some at a time. A dot
// product is one chain along the head, heads are added in their order.

const HEAD_WIDTH: u32 = 4u * INDEX_UNITS;

var<workgroup> query: array<vec4<f32>, TOGETHER * HEAD_WIDTH>;
var<workgroup> lanes: array<f32, 4u * TOGETHER * NORM_LANES>;
var<workgroup> scales: array<f32, 4u * TOGETHER>;

// Loads of a thread that are on their way at once.
const BATCH: u32 = 4u;

// Of the tile: its first row, and the first index head that is taken now.
var<private> tile_row: u32 = 0u;
var<private> tile_rows: u32 = 1u;
var<private> first_head: u32 = 0u;

// Head 4 h + r is index head h of row r; behind the end the last ones again.
fn source(head: u32, d: u32) -> f32 {
    let row = tile_row + min(head % 4u, tile_rows - 1u);
    let h = min(first_head + head / 4u, INDEX_HEADS - 1u);
    return q[(row * INDEX_HEADS + h) * INDEX + d];
}

fn norm_weight(d: u32) -> f32 {
    return norm[d];
}

// max(0, x), and NaN for NaN, whatever a compiler thinks of NaN.
fn relu(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return select(x, 0.0, (bits >> 31u) == 1u && !is_nan_bits(bits));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = tiles[group.y];
    tile_row = tile.x;
    tile_rows = tile.y;
    let first_pos = tile.z;
    // Complete blocks that the last row sees; where the last has no choice to make, none has.
    let seen = (first_pos + tile_rows) / BLOCK;
    if seen <= p.keep || group.x * THREADS >= seen {
        return;
    }
    let block = group.x * THREADS + thread;
    var sum = vec4(0.0);
    for (var first = 0u; first < INDEX_HEADS; first += TOGETHER) {
        first_head = first;
        for (var i = thread; i < 4u * TOGETHER * NORM_LANES; i += THREADS) {
            lanes[i] = lane_squares(i / NORM_LANES, i % NORM_LANES, INDEX);
        }
        workgroupBarrier();
        for (var i = thread; i < 4u * TOGETHER; i += THREADS) {
            var squares = lanes[i * NORM_LANES];
            for (var lane = 1u; lane < NORM_LANES; lane++) {
                squares += lanes[i * NORM_LANES + lane];
            }
            scales[i] = norm_scale(squares, INDEX);
        }
        workgroupBarrier();
        for (var i = thread; i < TOGETHER * HEAD_WIDTH; i += THREADS) {
            let head = i / HEAD_WIDTH;
            var values = vec4(0.0);
            for (var r = 0u; r < 4u; r++) {
                let scale = scales[4u * head + r];
                let pos = first_pos + min(r, tile_rows - 1u);
                let angle = pos * p.angle_stride + p.index_angle;
                values[r] = turned(4u * head + r, i % HEAD_WIDTH, INDEX, scale, angle, INDEX_PAIRS);
            }
            query[i] = values;
        }
        workgroupBarrier();
        if block < seen {
            let key_at = (tile.w + block) * INDEX_UNITS;
            var dots: array<vec4<f32>, TOGETHER>;
            for (var h = 0u; h < TOGETHER; h++) {
                dots[h] = vec4(0.0);
            }
            for (var first_unit = 0u; first_unit < INDEX_UNITS; first_unit += BATCH) {
                var units: array<vec4<f32>, BATCH>;
                for (var i = 0u; i < BATCH; i++) {
                    units[i] = keys[key_at + min(first_unit + i, INDEX_UNITS - 1u)];
                }
                for (var i = 0u; i < BATCH; i++) {
                    let u = first_unit + i;
                    if INDEX_UNITS % BATCH == 0u || u < INDEX_UNITS {
                        for (var h = 0u; h < TOGETHER; h++) {
                            let at = h * HEAD_WIDTH + 4u * u;
                            dots[h] = fma(query[at], vec4(units[i].x), dots[h]);
                            dots[h] = fma(query[at + 1u], vec4(units[i].y), dots[h]);
                            dots[h] = fma(query[at + 2u], vec4(units[i].z), dots[h]);
                            dots[h] = fma(query[at + 3u], vec4(units[i].w), dots[h]);
                        }
                    }
                }
            }
            for (var h = 0u; h < TOGETHER; h++) {
                if first + h < INDEX_HEADS {
                    let dot = dots[h];
                    sum += vec4(relu(dot.x), relu(dot.y), relu(dot.z), relu(dot.w));
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < tile_rows; r++) {
        if block < (first_pos + r + 1u) / BLOCK {
            let at = (tile_row + r - p.first_row) * p.stride + block;
            scores[at] = bitcast<u32>(sum[r] * p.scale);
        }
    }
}
