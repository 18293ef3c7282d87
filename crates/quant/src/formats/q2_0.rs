//! Q2_0: 64 elements in 18 bytes, two bits each: -d, 0, +d, +2d.

use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{peak_magnitude, reciprocal_or_zero, round_away};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q2_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q2_0 {
    /// Scale.
    pub d: Half,
    /// Element j is the two bits from 2 * (j % 4) of byte j / 4, less one. Code 3 (+2d) is legal.
    pub qs: [u8; 16],
}

packed_format!(Q2_0, elements: 64, bytes: 18, partner: Q8_0);

impl Packed for Q2_0 {
    type Codes = [i8; 64];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 64] {
        let mut codes = [0; 64];
        for (byte, codes) in self.qs.iter().zip(codes.as_chunks_mut::<4>().0) {
            for (j, code) in codes.iter_mut().enumerate() {
                *code = ((byte >> (2 * j)) & 3) as i8 - 1;
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

impl EncodeBlock for Q2_0 {
    /// Ternary rounding: the scale is the largest magnitude, so code 3 does not occur. Meant for
    /// weights that are ternary already. Importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let d = peak_magnitude(source.values);
        let factor = reciprocal_or_zero(d);
        let mut qs = [0; 16];
        for (byte, values) in qs.iter_mut().zip(source.values.as_chunks::<4>().0) {
            for (j, x) in values.iter().enumerate() {
                let code = (round_away(x * factor) + 1).clamp(0, 3) as u8;
                *byte |= code << (2 * j);
            }
        }
        Self { d: Half::from_f32(d), qs }
    }
}
