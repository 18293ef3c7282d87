// f32 activations and weights without codes.

struct Input {
    values: array<vec4<f32>, 8>,
}

fn load_x(place: u32) -> Input {
    var out: Input;
    for (var i = 0u; i < 8u; i++) {
        out.values[i] = x[8u * place + i];
    }
    return out;
}

fn add_product(unit: Unit, input: Input, sum: f32) -> f32 {
    var four = vec4(0.0);
    for (var i = 0u; i < 8u; i++) {
        four = fma(unit.values[i], input.values[i], four);
    }
    return sum + ((four.x + four.y) + (four.z + four.w));
}
