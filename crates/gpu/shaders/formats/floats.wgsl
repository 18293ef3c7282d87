// 32 values of a weight row as f32, four at a time.

struct Unit {
    values: array<vec4<f32>, 8>,
}
