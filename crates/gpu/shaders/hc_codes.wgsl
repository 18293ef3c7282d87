// The mix in 8 bits: COLUMNS is whole units then.

fn leave_codes(first_row: u32, count: u32, block: u32, thread: u32, mix: f32) {
    mixed[thread] = mix;
    workgroupBarrier();
    let vectors = COLUMNS / 4u;
    let here = thread < count * vectors && block * COLUMNS + thread % vectors * 4u < p.width;
    let mine = 4u * min(thread, THREADS / 4u - 1u);
    let four = vec4(mixed[mine], mixed[mine + 1u], mixed[mine + 2u], mixed[mine + 3u]);
    let row = first_row + thread / vectors;
    store_codes((row * p.width + block * COLUMNS) / 4u + thread % vectors, thread, four, here);
}
