// How the splits of a row come together, in their order, and what becomes of the sum. Both kernels
// that do this do it with the same steps.

// A score below all others; its difference to any is a number.
const LOWEST: f32 = -3.0e38;

// Factors of what was merged so far and of the next split, from the largest scores of both.
fn join_factors(largest: f32, next: f32) -> vec2<f32> {
    let both = max(largest, next);
    return vec2(exp(largest - both), exp(next - both));
}

fn join_total(factors: vec2<f32>, so_far: f32, next: f32) -> f32 {
    return fma(so_far, factors.x, next * factors.y);
}

fn join_sums(factors: vec2<f32>, so_far: vec4<f32>, next: vec4<f32>) -> vec4<f32> {
    return fma(so_far, vec4(factors.x), next * factors.y);
}

// Value c of a unit of a row's result, as bits; a row without positions has none.
fn finished(sum: f32, total: f32, gate: f32, count: u32) -> u32 {
    let inverse = 1.0 / total;
    return select(bitcast<u32>(sum * inverse * sigmoid(gate)), 0x7fc00000u, count == 0u);
}
