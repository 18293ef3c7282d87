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
    // First the chunk, compared in lanes that a compiler turns into vectors, then the place in it.
    const CHUNK: usize = 1024;
    let mut best = (0, f32::NEG_INFINITY);
    for (i, chunk) in values.chunks(CHUNK).enumerate() {
        let largest = largest(chunk)?;
        if largest > best.1 {
            best = (i * CHUNK, largest);
        }
    }
    let place = values.get(best.0..)?.iter().position(|&value| value == best.1)?;
    best.1.is_finite().then_some((best.0 + place) as u32)
}

/// The largest value, -inf of none; `None` if any is NaN.
pub fn largest(values: &[f32]) -> Option<f32> {
    const LANES: usize = 16;
    let mut best = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            best[i] = if chunk[i] > best[i] { chunk[i] } else { best[i] };
            nan[i] |= chunk[i].is_nan();
        }
    }
    let any_nan = nan.contains(&true) || rest.iter().any(|x| x.is_nan());
    (!any_nan).then(|| best.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_by_one(values: &[f32]) -> Option<u32> {
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

    #[test]
    fn argmax_is_the_lowest_of_the_largest_wherever_it_lies() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for len in [1, 2, 15, 16, 17, 1023, 1024, 1025, 5000] {
            let base: Vec<f32> = (0..len).map(|i| -((i * 7 % 11) as f32)).collect();
            assert_eq!(argmax(&base), one_by_one(&base), "{len} values");
            for at in [0, len / 3, len / 2, len - 1] {
                for value in [5.0, 0.0, -0.0, -inf, inf, nan] {
                    let mut values = base.clone();
                    values[at] = value;
                    values[len - 1 - at / 2] = value;
                    assert_eq!(argmax(&values), one_by_one(&values), "{value} at {at} of {len}");
                }
            }
        }
        assert_eq!(argmax(&[]), None);
        assert_eq!(argmax(&[-inf; 40]), None);
    }
}
