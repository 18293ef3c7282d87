//! MXFP4: 32 elements in 17 bytes, E2M1 values with a power-of-two scale.

use super::nibbles;
use crate::Packed;
use crate::codebook::{KVALUES_FP4, e8m0_half};
use crate::format::packed_format;
use bytemuck::{Pod, Zeroable};

/// Block of MXFP4.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct MXFP4 {
    /// Exponent of the scale, biased by 127. 255 is reserved.
    pub e: u8,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(MXFP4, elements: 32, bytes: 17, partner: Q8_0);

impl Packed for MXFP4 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::look_up(&KVALUES_FP4, &self.qs)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [e8m0_half(self.e)]
    }

    fn bad_field(&self) -> Option<&'static str> {
        (self.e == 255).then_some("e")
    }
}
