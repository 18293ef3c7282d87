// Splits of a row put together: a thread for each unit of 4 values of a head.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = (group.x + group.y * p.grid) * THREADS + thread;
    if item >= p.rows * HEADS * UNITS {
        return;
    }
    let unit = item % UNITS;
    let head = item / UNITS % HEADS;
    let row = item / UNITS / HEADS;
    let run = find_run(row);
    let seen = find_seen(row, run.first_pos + row - run.first_row);
    let size = split_size(seen.count);
    let splits = (seen.count + size - 1u) / size;
    var largest = LOWEST;
    var total = 0.0;
    var sums = vec4(0.0);
    for (var split = 0u; split < splits; split++) {
        let first = ((row * p.splits + split) * HEADS + head) * (UNITS + 1u);
        let state = parts[first + UNITS];
        let joined = join(largest, state.x);
        total = join_total(joined, total, state.y);
        sums = join_sums(joined, sums, parts[first + unit]);
        largest = joined.largest;
    }
    for (var c = 0u; c < 4u; c++) {
        let d = 4u * unit + c;
        if d < HEAD {
            let gate = q[((row * HEADS + head) * 2u + 1u) * HEAD + d];
            o[(row * HEADS + head) * HEAD + d] = finished(sums[c], total, gate, seen.count);
        }
    }
}
