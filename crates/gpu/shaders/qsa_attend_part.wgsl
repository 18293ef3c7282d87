// Sums of one split, and behind those of a head its largest score and the sum of its weights.

fn store_part(row: u32, split: u32, head: u32, h: u32, unit: u32, sums: vec4<f32>) {
    let first = ((row * p.splits + split) * HEADS + head) * (UNITS + 1u);
    out[first + unit] = sums;
    if unit == 0u {
        out[first + UNITS] = vec4(largest[h], total[h], 0.0, 0.0);
    }
}

fn store_whole(row: u32, head: u32, h: u32, unit: u32, count: u32, sums: vec4<f32>) {
}
