//! IQ1_M: 256 elements in 56 bytes; IQ1_S with a shift per 8 elements and a scale per 16. The
//! block's f16 scale has no field of its own: it is spread over the top nibbles of the scales.

use super::iq1_s::{eighth_scale, place_shifted};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le16, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ1_M.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ1_M {
    /// Low 8 bits of the grid index of each 8 elements.
    pub qs: [u8; 32],
    /// A nibble per 8 elements, low first. Bits 0..3: high bits of the index; bit 3: the shift is
    /// negative.
    pub qh: [u8; 16],
    /// Per 64 elements. Bits 3k..3k+3: scale of the k-th 16; bits 12..16: a nibble of d, the
    /// lowest in the first word.
    pub scales: [Le16; 4],
}

packed_format!(IQ1_M, elements: 256, bytes: 56, partner: Q8_K);

impl IQ1_M {
    /// The scale of the block, put together from the top nibbles.
    #[inline(always)]
    #[must_use]
    pub fn d(&self) -> Half {
        let mut bits = 0;
        for (i, word) in self.scales.iter().enumerate() {
            bits |= (word.get() >> 12) << (4 * i);
        }
        Half::from_bits(bits)
    }
}

impl Packed for IQ1_M {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (r, low) in self.qs.iter().enumerate() {
            let nibble = usize::from(self.qh[r / 2] >> (4 * (r % 2))) & 15;
            let shift = if nibble >> 3 == 0 { 1 } else { -1 };
            place_shifted(&mut codes, r, usize::from(*low) | ((nibble & 7) << 8), shift);
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 16] {
        let d = self.d().to_f32();
        let mut scales = [0.0; 16];
        for (g, scale) in scales.iter_mut().enumerate() {
            let s = (self.scales[g / 4].get() >> (3 * (g % 4))) & 7;
            *scale = eighth_scale(d, s);
        }
        scales
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d().to_f32())])
    }
}
