// out = silu(gate) * up, four values at a time, and the same in 8 bits.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * p.grid) * THREADS + thread;
    let here = i < p.rows * p.width;
    var four = vec4(0.0);
    if here {
        let pair = gate_and_up(i);
        for (var k = 0u; k < 4u; k++) {
            four[k] = silu(pair.gate[k]) * pair.up[k];
        }
        out[i] = four;
    }
    store_codes(i, thread, four, here);
}

struct Pair {
    gate: vec4<f32>,
    up: vec4<f32>,
}
