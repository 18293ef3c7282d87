//! Q4_1: 32 elements in 20 bytes, nibble * d + m.

use super::nibbles;
use super::q4_0::first_32;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::reciprocal_or_zero;
use crate::search::{AffineFit, IMPORTANCE_STEPS, fit_affine, importance_weights};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q4_1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q4_1 {
    /// Scale.
    pub d: Half,
    /// Value of code 0.
    pub m: Half,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(Q4_1, elements: 32, bytes: 20, partner: Q8_1);

impl Packed for Q4_1 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::unpack(&self.qs).map(|code| code as i8)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    #[inline(always)]
    fn offsets(&self) -> Option<[f32; 1]> {
        Some([self.m.to_f32()])
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32()), ("m", self.m.to_f32())])
    }
}

/// Scale, minimum and codes `0..=max_code`, as Q4_1 (15) and Q5_1 (31) do: without importance the
/// codes span smallest to largest, with it a search decides.
pub(super) fn encode_affine(source: &Source<'_>, max_code: u8) -> AffineFit<32> {
    let x = first_32(source.values);
    if let Some(importance) = source.importance {
        let weights = importance_weights(x, importance, source.row_mean_square);
        return fit_affine(x, &weights, max_code, IMPORTANCE_STEPS);
    }
    let (min, max) = x.iter().fold((x[0], x[0]), |(min, max), &x| {
        (if x < min { x } else { min }, if x > max { x } else { max })
    });
    let scale = (max - min) / f32::from(max_code);
    let factor = reciprocal_or_zero(scale);
    let code = |x: f32| (((x - min) * factor + 0.5) as i32).clamp(0, i32::from(max_code)) as u8;
    AffineFit { scale, min, codes: x.map(code) }
}

impl EncodeBlock for Q4_1 {
    fn encode_block(source: &Source<'_>) -> Self {
        let AffineFit { scale, min, codes } = encode_affine(source, 15);
        Self { d: Half::from_f32(scale), m: Half::from_f32(min), qs: nibbles::pack(&codes) }
    }
}
