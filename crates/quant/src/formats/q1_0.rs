//! Q1_0: 128 elements in 18 bytes, one sign bit each: +d or -d.

use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::{BlockFormat, Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q1_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q1_0 {
    /// Scale.
    pub d: Half,
    /// Element j is bit j % 8 of byte j / 8: 1 is +d, 0 is -d.
    pub bits: [u8; 16],
}

packed_format!(Q1_0, elements: 128, bytes: 18, partner: Q8_0);

impl Packed for Q1_0 {
    type Codes = [i8; 128];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 128] {
        let mut codes = [0; 128];
        for (byte, codes) in self.bits.iter().zip(codes.as_chunks_mut::<8>().0) {
            for (j, code) in codes.iter_mut().enumerate() {
                *code = 2 * ((byte >> j) & 1) as i8 - 1;
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

impl EncodeBlock for Q1_0 {
    /// The scale is the mean magnitude; zero counts as positive. Importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let sum = source.values.iter().fold(0.0, |sum, x| sum + x.abs());
        let mut bits = [0; 16];
        for (byte, values) in bits.iter_mut().zip(source.values.as_chunks::<8>().0) {
            for (j, x) in values.iter().enumerate() {
                *byte |= u8::from(*x >= 0.0) << j;
            }
        }
        Self { d: Half::from_f32(sum / Self::ELEMENTS as f32), bits }
    }
}
