//! Rounding of scaled values to codes, exact and without calls into the maths library.

/// Nearest integer, halves away from zero. Saturates; NaN gives 0.
#[inline(always)]
pub(crate) fn round_away(x: f32) -> i32 {
    // Truncation and the remainder are exact; adding 0.5 first would round 0.49999997 up.
    let whole = x as i32;
    let rest = x - whole as f32;
    whole.saturating_add(i32::from(rest >= 0.5) - i32::from(rest <= -0.5))
}

/// Nearest integer, halves to even, of values clamped to +-4 194 303. NaN gives some integer.
#[inline(always)]
pub(crate) fn round_even(x: f32) -> i32 {
    const LIMIT: f32 = 4_194_303.0;
    // 1.5 * 2^23: the sum has a unit in the last place of exactly one, so the addition rounds.
    const MAGIC: f32 = 12_582_912.0;
    let sum = x.clamp(-LIMIT, LIMIT) + MAGIC;
    (sum.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

/// `1 / x`, or 0 where that is not finite (x zero, tiny or NaN), so that codes become 0.
#[inline(always)]
pub(crate) fn reciprocal_or_zero(x: f32) -> f32 {
    let inverse = 1.0 / x;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The element of largest magnitude with its sign (the first one wins), 0 for an empty slice.
#[inline(always)]
pub(crate) fn signed_peak(values: &[f32]) -> f32 {
    let mut peak = 0.0f32;
    for &v in values {
        if v.abs() > peak.abs() {
            peak = v;
        }
    }
    peak
}

/// The largest magnitude, 0 for an empty slice; NaN elements are passed over.
#[inline(always)]
pub(crate) fn peak_magnitude(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |peak, v| if v.abs() > peak { v.abs() } else { peak })
}

#[cfg(test)]
mod tests {
    use super::{round_away, round_even};

    #[test]
    fn rounding_agrees_with_the_standard_library() {
        let cases = [0.5f32, 1.5, 2.5, 0.499_999_97, 126.5, 127.499_99, 4_194_303.0, 1e-30, 0.0];
        for x in cases.into_iter().flat_map(|x| [x, -x]) {
            assert_eq!(round_away(x), x.round() as i32, "{x}");
            assert_eq!(round_even(x), x.round_ties_even() as i32, "{x}");
        }
        assert_eq!(round_away(1e30), i32::MAX);
        assert_eq!(round_away(f32::NAN), 0);
        assert_eq!(round_even(f32::NEG_INFINITY), -4_194_303);
    }
}
