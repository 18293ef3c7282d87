//! IQ4_NL: 32 elements in 18 bytes, d times a value from a table of 16.

use super::nibbles;
use crate::codebook::KVALUES_IQ4NL;
use crate::format::{first_non_finite, packed_format};
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
