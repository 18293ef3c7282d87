//! IQ4_NL: 32 elements in 18 bytes, d times a value from a table of 16.

use super::nibbles;
use super::q4_0::first_32;
use crate::codebook::KVALUES_IQ4NL;
use crate::encode::mean_square;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{reciprocal_or_zero, signed_peak};
use crate::search::{NEGLIGIBLE, fit_scale, importance_weights};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ4_NL.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ4_NL {
    /// Scale.
    pub d: Half,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(IQ4_NL, elements: 32, bytes: 18, partner: Q8_0);

impl Packed for IQ4_NL {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::look_up(&KVALUES_IQ4NL, &self.qs)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

/// The code of the nearest table value; halfway goes to the upper one.
pub(super) fn nearest_code(x: f32) -> u8 {
    let value = |code: usize| f32::from(KVALUES_IQ4NL[code]);
    let upper = KVALUES_IQ4NL.partition_point(|&v| f32::from(v) <= x).clamp(1, 15);
    (if x - value(upper - 1) < value(upper) - x { upper - 1 } else { upper }) as u8
}

/// The best scale for 32 values; 0 where all are negligible. `mean_square` is twice the mean
/// square of the block and counts only together with importance.
pub(super) fn fit_table(x: &[f32; 32], importance: Option<&[f32]>, mean_square: f32) -> f32 {
    let peak = signed_peak(x);
    if peak.abs() < NEGLIGIBLE {
        return 0.0;
    }
    let weights = match importance {
        Some(importance) => importance_weights(x, importance, mean_square),
        None => x.map(|x| x * x),
    };
    // The table's lowest value, -127, is the largest in magnitude and takes the peak.
    let first = 1.0 / (peak / 127.0);
    let steps = (-7..=7).map(|k| (k as f32 - 127.0) / peak);
    let nearest = |scaled: f32| KVALUES_IQ4NL[usize::from(nearest_code(scaled))];
    let factors = std::iter::once(first).chain(steps);
    fit_scale(x, &weights, factors, nearest, |w, x, q| w * q * x).scale
}

/// The codes of 32 values for a scale.
pub(super) fn codes_for(x: &[f32; 32], scale: f32) -> [u8; 32] {
    let factor = reciprocal_or_zero(scale);
    x.map(|x| nearest_code(factor * x))
}

impl EncodeBlock for IQ4_NL {
    fn encode_block(source: &Source<'_>) -> Self {
        let x = first_32(source.values);
        let d = fit_table(x, source.importance, 2.0 * mean_square(x));
        Self { d: Half::from_f32(d), qs: nibbles::pack(&codes_for(x, d)) }
    }
}
