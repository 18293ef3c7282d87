//! Q4_0: 32 elements in 18 bytes, (nibble - 8) * d.

use super::nibbles;
use crate::format::{first_non_finite, packed_format};
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
