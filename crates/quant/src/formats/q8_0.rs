//! Q8_0: 32 elements in 34 bytes, 8-bit code * d. Weights and activations.

use crate::activation::Activation;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q8_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q8_0 {
    /// Scale.
    pub d: Half,
    /// Codes in element order.
    pub qs: [i8; 32],
}

packed_format!(Q8_0, elements: 32, bytes: 34, partner: Q8_0);

impl Packed for Q8_0 {
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
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

impl EncodeBlock for Q8_0 {
    /// The activation quantiser; importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        Self::quantise(source.values)
    }
}
