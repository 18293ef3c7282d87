//! IQ2_S: 256 elements in 82 bytes; rows of 8 magnitudes from a grid of 1024, stored sign bytes.

use super::lattice::{nibble_scales, place, signed};
use crate::codebook::{IQ2S_GRID, SIGN_MASKS};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ2_S.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ2_S {
    /// Scale.
    pub d: Half,
    /// Low 8 bits of the grid index of each 8 elements.
    pub qs: [u8; 32],
    /// Signs of each 8 elements.
    pub signs: [u8; 32],
    /// High 2 bits of four grid indices, lowest bits first, per 32 elements.
    pub qh: [u8; 8],
    /// Per 32 elements: scale of the first 16 in the low nibble, of the other 16 in the high one.
    pub scales: [u8; 8],
}

packed_format!(IQ2_S, elements: 256, bytes: 82, partner: Q8_K);

impl Packed for IQ2_S {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let (mut magnitudes, mut masks) = ([0; 256], [0; 256]);
        for (r, (low, sign)) in self.qs.iter().zip(&self.signs).enumerate() {
            let high = (usize::from(self.qh[r / 4]) >> (2 * (r % 4))) & 3;
            place(&mut magnitudes, r, &IQ2S_GRID[usize::from(*low) | (high << 8)]);
            place(&mut masks, r, &SIGN_MASKS[usize::from(*sign)]);
        }
        signed(&magnitudes, &masks)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 16] {
        nibble_scales(self.d.to_f32(), &self.scales)
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
