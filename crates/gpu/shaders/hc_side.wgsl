// The squares of one stream of one row and its products with `inject`, by one workgroup.

// Sums that are made at once.
const AT_ONCE: u32 = 8u;

var<workgroup> side_parts: array<array<vec4<f32>, 2>, THREADS>;

fn four_sum(four: vec4<f32>) -> f32 {
    return (four.x + four.y) + (four.z + four.w);
}

fn side(row: u32, stream: u32, thread: u32) {
    for (var first = 0u; first <= INJECT; first += AT_ONCE) {
        var sums: array<vec4<f32>, AT_ONCE>;
        for (var e = 0u; e < AT_ONCE; e++) {
            sums[e] = vec4(0.0);
        }
        for (var k = thread; k < stream_fours(); k += THREADS) {
            let four = x_four(row * STREAMS + stream, k);
            let weighted = four * norm_four(stream, k);
            for (var e = 0u; e < AT_ONCE; e++) {
                if first + e == 0u {
                    sums[e] = fma(four, four, sums[e]);
                } else if first + e <= INJECT {
                    sums[e] = fma(weighted, inject_four(first + e - 1u, stream, k), sums[e]);
                }
            }
        }
        for (var half = 0u; half < 2u; half++) {
            side_parts[thread][half] = vec4(
                four_sum(sums[4u * half]),
                four_sum(sums[4u * half + 1u]),
                four_sum(sums[4u * half + 2u]),
                four_sum(sums[4u * half + 3u]),
            );
        }
        workgroupBarrier();
        for (var step = THREADS / 2u; step > 0u; step /= 2u) {
            if thread < step {
                side_parts[thread][0] += side_parts[thread + step][0];
                side_parts[thread][1] += side_parts[thread + step][1];
            }
            workgroupBarrier();
        }
        if thread < AT_ONCE && first + thread <= INJECT {
            part[side_place(row, stream) + first + thread] = side_parts[0][thread / 4u][thread % 4u];
        }
        // The next sums write here again.
        workgroupBarrier();
    }
}
