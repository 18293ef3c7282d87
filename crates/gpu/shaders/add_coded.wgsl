// f32 activations and coded weights: codes are multiplied first, then each group's scale.

fn four(word: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word));
}

fn across(x: vec4<f32>) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

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
    var first = vec4(0.0);
    var second = vec4(0.0);
    var x_first = vec4(0.0);
    var x_second = vec4(0.0);
    for (var i = 0u; i < 4u; i++) {
        let low = input.values[i];
        let high = input.values[4u + i];
        first = fma(four(unit.low[i]), low, first);
        second = fma(four(unit.high[i]), high, second);
        if AFFINE == 1u {
            x_first += low;
            x_second += high;
        }
    }
    var total = sum;
    if HALVES == 1u {
        total = fma(across(first), unit.scale.x, total);
        total = fma(across(second), unit.scale.y, total);
    } else {
        total = fma(across(first + second), unit.scale.x, total);
    }
    if AFFINE == 1u {
        if HALVES == 1u {
            total = fma(unit.offset.x, across(x_first), total);
            total = fma(unit.offset.y, across(x_second), total);
        } else {
            total = fma(unit.offset.x, across(x_first + x_second), total);
        }
    }
    return total;
}
