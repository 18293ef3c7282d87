// out = silu(gate) * up, four values at a time, and the same in 8 bits.

// All threads of the workgroup call it; `i` counts vectors of four.
fn swiglu_four(i: u32, thread: u32, here: bool) {
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
