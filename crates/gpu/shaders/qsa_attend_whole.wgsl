// A row's result.

fn store_part(row: u32, split: u32, head: u32, h: u32, unit: u32, sums: vec4<f32>) {
}

fn store_whole(row: u32, head: u32, h: u32, unit: u32, count: u32, sums: vec4<f32>) {
    for (var c = 0u; c < 4u; c++) {
        let d = 4u * unit + c;
        if d < HEAD {
            let gate = source(h, HEAD + d);
            out[(row * HEADS + head) * HEAD + d] = finished(sums[c], all_total[h], gate, count);
        }
    }
}
