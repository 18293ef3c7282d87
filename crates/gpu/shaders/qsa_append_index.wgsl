// A raw index key, and the pooled key of the block that it completes.

var<private> pooling: bool = false;

fn norm_weight(d: u32) -> f32 {
    if pooling {
        return index_norm[d];
    }
    return k_norm[d];
}

fn append_index(row: u32, run: Run, pos: u32, thread: u32) {
    let width = 4u * INDEX_UNITS;
    for (var d = thread; d < width; d += THREADS) {
        var value = 0.0;
        if d < INDEX {
            value = raw[row * INDEX + d];
        }
        keys[(run.index_first + pos) * width + d] = value;
    }
    if (pos + 1u) % BLOCK != 0u {
        return;
    }
    pooling = true;
    let first = pos + 1u - BLOCK;
    for (var d = thread; d < INDEX; d += THREADS) {
        var sum = 0.0;
        for (var b = first; b <= pos; b++) {
            // Keys of this window may not be in the cache yet.
            if b >= run.first_pos {
                sum += raw[(run.first_row + b - run.first_pos) * INDEX + d];
            } else {
                sum += keys[(run.index_first + b) * width + d];
            }
        }
        staged[d] = sum / f32(BLOCK);
    }
    workgroupBarrier();
    let scale = staged_scale(INDEX, thread);
    let angle = first * p.angle_stride + p.index_angle;
    let to = (run.block_first + pos / BLOCK) * width;
    for (var d = thread; d < width; d += THREADS) {
        keys[to + d] = turned(0u, d, INDEX, scale, angle, INDEX_PAIRS);
    }
}
