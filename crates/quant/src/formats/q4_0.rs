//! Q4_0: 32 elements in 18 bytes, (nibble - 8) * d.

use super::nibbles;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{reciprocal_or_zero, signed_peak};
use crate::search::{fit_symmetric, importance_weights};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q4_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q4_0 {
    /// Scale.
    pub d: Half,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(Q4_0, elements: 32, bytes: 18, partner: Q8_0);

impl Packed for Q4_0 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::unpack(&self.qs).map(|code| code as i8 - 8)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

/// Scale and codes `0..=2 * LIMIT - 1` of a symmetric block, as Q4_0 (limit 8) and Q5_0 (16) do:
/// without importance the largest element becomes `-LIMIT`, with it a search decides.
pub(super) fn encode_symmetric<const LIMIT: i8>(source: &Source<'_>) -> (f32, [u8; 32]) {
    let x = first_32(source.values);
    let Some(importance) = source.importance else {
        let d = signed_peak(x) / -f32::from(LIMIT);
        let factor = reciprocal_or_zero(d);
        let highest = 2 * i32::from(LIMIT) - 1;
        let middle = f32::from(LIMIT) + 0.5;
        return (d, x.map(|x| ((x * factor + middle) as i32).clamp(0, highest) as u8));
    };
    let weights = importance_weights(x, importance, source.row_mean_square);
    let fit = fit_symmetric(x, &weights, LIMIT);
    (fit.scale, fit.codes.map(|code| (code + LIMIT) as u8))
}

/// The values of a block as an array.
///
/// # Panics
/// If there are fewer than 32.
pub(super) fn first_32(values: &[f32]) -> &[f32; 32] {
    &values.as_chunks().0[0]
}

impl EncodeBlock for Q4_0 {
    fn encode_block(source: &Source<'_>) -> Self {
        let (d, codes) = encode_symmetric::<8>(source);
        Self { d: Half::from_f32(d), qs: nibbles::pack(&codes) }
    }
}
