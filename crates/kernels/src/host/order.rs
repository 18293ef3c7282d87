//! Values and their indices as one number, so that choosing the best is sorting of numbers.

/// A key that rises with falling `value`, and for equal values with rising `index`. Zeros of either
/// sign are equal; a NaN counts as negative infinity.
pub(super) fn key(value: f32, index: u32) -> u64 {
    // Adding zero makes -0.0 equal to 0.0.
    let value = if value.is_nan() { f32::NEG_INFINITY } else { value + 0.0 };
    let bits = value.to_bits();
    // Rises with the value, as an unsigned number: negative values count backwards.
    let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!rising) << 32 | u64::from(index)
}

/// The index in a key.
pub(super) fn index(key: u64) -> u32 {
    key as u32
}

/// Moves the `count` smallest keys to the front, in no order; `0 < count <= keys.len()`.
pub(super) fn select(keys: &mut [u64], count: usize) {
    if count < keys.len() {
        keys.select_nth_unstable(count - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_rise_with_falling_values_then_with_indices() {
        let inf = f32::INFINITY;
        let falling = [inf, 1e30, 1.0, f32::MIN_POSITIVE, 1e-45, 0.0, -1e-45, -2.0, -1e30, -inf];
        for (i, pair) in falling.windows(2).enumerate() {
            assert!(key(pair[0], 7) < key(pair[1], 0), "pair {i}");
            assert!(key(pair[0], 3) < key(pair[0], 4), "value {i}");
            assert_eq!(index(key(pair[0], 5)), 5);
        }
        assert_eq!(key(0.0, 1), key(-0.0, 1));
        assert_eq!(key(f32::NAN, 1), key(-inf, 1));
    }
}
