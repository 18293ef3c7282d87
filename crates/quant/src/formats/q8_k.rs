//! Q8_K: 256 activations in 292 bytes: 8-bit code * d, with the sums of the codes beside them.

use crate::format::{first_non_finite, packed_format};
use crate::{Le16, Le32, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q8_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q8_K {
    /// Scale, the bits of an f32.
    pub d: Le32,
    /// Codes in element order.
    pub qs: [i8; 256],
    /// Sums of the codes in groups of 16, the bits of i16.
    pub sums: [Le16; 16],
}

packed_format!(Q8_K, elements: 256, bytes: 292, partner: Q8_K);

impl Packed for Q8_K {
    type Codes = [i8; 256];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        self.qs
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [f32::from_bits(self.d.get())]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", f32::from_bits(self.d.get()))])
    }
}
