//! IQ1_S: 256 elements in 50 bytes; rows of 8 trits from a grid of 2048 and a shift of 1/8.

use crate::codebook::IQ1S_GRID;
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le16, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ1_S.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ1_S {
    /// Scale.
    pub d: Half,
    /// Low 8 bits of the grid index of each 8 elements.
    pub qs: [u8; 32],
    /// Per 32 elements. Bits 3l..3l+3: high bits of the l-th grid index; bits 12..15: scale s;
    /// bit 15: the shift is negative.
    pub qh: [Le16; 8],
}

packed_format!(IQ1_S, elements: 256, bytes: 50, partner: Q8_K);

/// Codes of a grid row in eighths, so that the shift of +-1/8 is an integer: `8 * trit + shift`.
/// With the scale divided by 8, a power of two, the decoded bits are the same.
#[inline(always)]
pub(super) fn place_shifted(codes: &mut [i8; 256], row: usize, index: usize, shift: i8) {
    for (code, trit) in codes[8 * row..8 * (row + 1)].iter_mut().zip(&IQ1S_GRID[index]) {
        *code = 8 * (*trit as i8) + shift;
    }
}

/// The scale `d * (2s + 1)` of codes in eighths.
#[inline(always)]
pub(super) fn eighth_scale(d: f32, s: u16) -> f32 {
    (d * f32::from(2 * s + 1)) * 0.125
}

impl Packed for IQ1_S {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (r, low) in self.qs.iter().enumerate() {
            let word = self.qh[r / 4].get();
            let high = usize::from(word >> (3 * (r % 4))) & 7;
            let shift = if word >> 15 == 0 { 1 } else { -1 };
            place_shifted(&mut codes, r, usize::from(*low) | (high << 8), shift);
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        let d = self.d.to_f32();
        self.qh.map(|word| eighth_scale(d, (word.get() >> 12) & 7))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
