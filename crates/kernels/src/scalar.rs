//! Scalar functions of the model, shared by every implementation in host memory.

/// Logistic function.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x * sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `max(0, x)`, and NaN for NaN: `f32::max` would hide it.
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// `ln(1 + e^x)`, the identity above 20.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// The gate of an n-gram feature: `sigma(sign(a) * sqrt(max(|a|, 1e-6)))`, with `sign(0) = 0`.
pub fn ple_gate(a: f32) -> f32 {
    let root = a.abs().max(1e-6).sqrt();
    sigmoid(if a > 0.0 {
        root
    } else if a < 0.0 {
        -root
    } else {
        // A NaN stays one; zero has no sign.
        0.0 * a
    })
}

/// Index of the largest value, the lowest of equal ones; `None` if any is NaN or the largest is not
/// finite: there is no meaningful choice then, and token 0 would be a lie.
pub fn argmax(values: &[f32]) -> Option<u32> {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, &value) in values.iter().enumerate() {
        if value.is_nan() {
            return None;
        }
        if value > best.1 {
            best = (i, value);
        }
    }
    best.1.is_finite().then_some(best.0 as u32)
}
