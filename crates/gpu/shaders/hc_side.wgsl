// The squares of one stream of one row and its products with `inject`, by one workgroup.

fn four_sum(four: vec4<f32>) -> f32 {
    return (four.x + four.y) + (four.z + four.w);
}

fn side(row: u32, stream: u32, thread: u32) {
    for (var first = 0u; first <= INJECT; first += 4u) {
        var sums: array<vec4<f32>, 4>;
        for (var e = 0u; e < 4u; e++) {
            sums[e] = vec4(0.0);
        }
        for (var k = thread; k < (p.width + 3u) / 4u; k += THREADS) {
            let four = x_four(row * STREAMS + stream, k);
            let weighted = four * norm_four(stream, k);
            for (var e = 0u; e < 4u; e++) {
                if first + e == 0u {
                    sums[e] = fma(four, four, sums[e]);
                } else if first + e <= INJECT {
                    sums[e] = fma(weighted, inject_four(first + e - 1u, stream, k), sums[e]);
                }
            }
        }
        let mine = vec4(
            four_sum(sums[0]),
            four_sum(sums[1]),
            four_sum(sums[2]),
            four_sum(sums[3]),
        );
        let total = sum_up(thread, mine);
        if thread < 4u && first + thread <= INJECT {
            part[side_place(row, stream) + first + thread] = total[thread];
        }
    }
}
