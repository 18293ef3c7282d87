//! TQ2_0: 256 elements in 66 bytes, two bits each: -d, 0, +d, +2d.

use super::tq1_0::to_trit;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{peak_magnitude, reciprocal_or_zero};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of TQ2_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TQ2_0 {
    /// Codes: bits 2k of byte 32n + l belong to element 128n + 32k + l.
    pub qs: [u8; 64],
    /// Scale.
    pub d: Half,
}

packed_format!(TQ2_0, elements: 256, bytes: 66, partner: Q8_K);

impl Packed for TQ2_0 {
    type Codes = [i8; 256];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, code) in codes.iter_mut().enumerate() {
                *code = ((self.qs[32 * n + l] >> (2 * k)) & 3) as i8 - 1;
            }
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

impl EncodeBlock for TQ2_0 {
    /// Ternary rounding with the largest magnitude as the scale. Importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let d = peak_magnitude(source.values);
        let factor = reciprocal_or_zero(d);
        let mut qs = [0; 64];
        for (i, values) in source.values.as_chunks::<32>().0.iter().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, x) in values.iter().enumerate() {
                qs[32 * n + l] |= to_trit(*x, factor) << (2 * k);
            }
        }
        Self { qs, d: Half::from_f32(d) }
    }
}
