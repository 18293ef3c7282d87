//! Q4_1: 32 elements in 20 bytes, nibble * d + m.

use super::nibbles;
use crate::format::{first_non_finite, packed_format};
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
