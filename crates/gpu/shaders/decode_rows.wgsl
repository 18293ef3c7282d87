// Weight rows decoded to f32, to the bits of their definition, some copies of each.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    if i >= p.count * p.units {
        return;
    }
    let place = i / p.units;
    let column = i % p.units;
    // Wraps around below the first row of this part.
    let row = rows[place] - p.first_row;
    if row >= p.part_rows {
        return;
    }
    let unit = load(row * p.units + column);
    for (var k = 0u; k < 8u; k++) {
        let four = values(unit, k);
        for (var j = 0u; j < 4u; j++) {
            let at = 32u * column + 4u * k + j;
            if at < p.n_in {
                for (var copy = 0u; copy < p.copies; copy++) {
                    out[(place * p.copies + copy) * p.n_in + at] = four[j];
                }
            }
        }
    }
}
