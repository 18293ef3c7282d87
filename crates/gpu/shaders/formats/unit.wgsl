// 32 values of a weight row: signed bytes, and a scale and an offset for each 16 of them.

struct Unit {
    low: vec4<u32>,
    high: vec4<u32>,
    scale: vec2<f32>,
    offset: vec2<f32>,
}
