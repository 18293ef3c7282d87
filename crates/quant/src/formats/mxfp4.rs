//! MXFP4: 32 elements in 17 bytes, E2M1 values with a power-of-two scale.

use super::nibbles;
use super::q4_0::first_32;
use crate::Packed;
use crate::codebook::{KVALUES_FP4, e8m0_half};
use crate::encode::{EncodeBlock, Source};
use crate::format::packed_format;
use crate::rounding::peak_magnitude;
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

/// The code whose value times `scale` is nearest to x; of equals the first.
pub(super) fn nearest_fp4(x: f32, scale: f32) -> u8 {
    let error = |code: usize| (f32::from(KVALUES_FP4[code]) * scale - x).abs();
    (1..16).fold(0, |best, code| if error(code) < error(best) { code } else { best }) as u8
}

impl EncodeBlock for MXFP4 {
    /// The exponent is two below that of the largest magnitude, clamped to the legal ones.
    /// Importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let x = first_32(source.values);
        // Bits 23..31 of an f32 are its exponent with the bias of 127 (0 for denormals).
        let exponent = (peak_magnitude(x).to_bits() >> 23) as u8;
        let e = exponent.saturating_sub(2);
        let scale = e8m0_half(e);
        Self { e, qs: nibbles::pack(&x.map(|x| nearest_fp4(x, scale))) }
    }
}
