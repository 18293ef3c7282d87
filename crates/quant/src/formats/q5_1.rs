//! Q5_1: 32 elements in 24 bytes, 5-bit code * d + m.

use super::nibbles;
use super::q4_1::encode_affine;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::search::AffineFit;
use crate::{Half, Le32, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q5_1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q5_1 {
    /// Scale.
    pub d: Half,
    /// Value of code 0.
    pub m: Half,
    /// Fifth bit of element j in bit j.
    pub qh: Le32,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(Q5_1, elements: 32, bytes: 24, partner: Q8_1);

impl Packed for Q5_1 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::unpack_5(&self.qs, self.qh.get()).map(|code| code as i8)
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

impl EncodeBlock for Q5_1 {
    fn encode_block(source: &Source<'_>) -> Self {
        let AffineFit { scale, min, codes } = encode_affine(source, 31);
        let (qs, fifth) = nibbles::pack_5(&codes);
        Self { d: Half::from_f32(scale), m: Half::from_f32(min), qh: Le32::new(fifth), qs }
    }
}
