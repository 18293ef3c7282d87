// Keys and values of a window into the cache: a workgroup for each row and key/value head, and for
// each row's index key.

var<workgroup> staged: array<f32, WIDTH>;
var<workgroup> ready: array<f32, WIDTH>;
var<workgroup> lanes: array<f32, NORM_LANES>;

fn source(head: u32, d: u32) -> f32 {
    return staged[d];
}

// The factor that normalises what is staged.
fn staged_scale(width: u32, thread: u32) -> f32 {
    if thread < NORM_LANES {
        lanes[thread] = lane_squares(0u, thread, width);
    }
    workgroupBarrier();
    var sum = lanes[0];
    for (var i = 1u; i < NORM_LANES; i++) {
        sum += lanes[i];
    }
    return norm_scale(sum, width);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = group.x + group.y * p.grid;
    if item >= p.rows * (KV_HEADS + INDEXED) {
        return;
    }
    let row = item / (KV_HEADS + INDEXED);
    let head = item % (KV_HEADS + INDEXED);
    let run = find_run(row);
    let pos = run.first_pos + row - run.first_row;
    if head == KV_HEADS {
        append_index(row, run, pos, thread);
        return;
    }
    let first = (row * KV_HEADS + head) * HEAD;
    for (var d = thread; d < HEAD; d += THREADS) {
        staged[d] = k[first + d];
    }
    workgroupBarrier();
    let scale = staged_scale(HEAD, thread);
    for (var d = thread; d < 4u * UNITS; d += THREADS) {
        ready[d] = turned(0u, d, HEAD, scale, pos * p.angle_stride, PAIRS);
    }
    workgroupBarrier();
    let to = ((run.kv_first + pos) * 2u * KV_HEADS + head) * HEAD_WORDS;
    for (var i = thread; i < HEAD_WORDS; i += THREADS) {
        cache[to + i] = stored(i);
    }
    workgroupBarrier();
    for (var d = thread; d < 4u * UNITS; d += THREADS) {
        var value = 0.0;
        if d < HEAD {
            value = v[first + d];
        }
        ready[d] = value;
    }
    workgroupBarrier();
    for (var i = thread; i < HEAD_WORDS; i += THREADS) {
        cache[to + KV_HEADS * HEAD_WORDS + i] = stored(i);
    }
}
