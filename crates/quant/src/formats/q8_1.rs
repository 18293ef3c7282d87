//! Q8_1: 32 activations in 36 bytes: Q8_0 with the sum of the decoded block beside it.

use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q8_1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q8_1 {
    /// Scale.
    pub d: Half,
    /// The f32 scale times the sum of the codes, rounded to f16.
    pub s: Half,
    /// Codes in element order.
    pub qs: [i8; 32],
}

packed_format!(Q8_1, elements: 32, bytes: 36, partner: Q8_1);

impl Packed for Q8_1 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        self.qs
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32()), ("s", self.s.to_f32())])
    }
}
