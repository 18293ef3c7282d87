//! IQ3_S: 256 elements in 110 bytes; rows of 4 magnitudes from a grid of 512, stored sign bytes.

use super::lattice::{place, signed};
use crate::codebook::{IQ3S_GRID, SIGN_MASKS};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ3_S.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ3_S {
    /// Scale.
    pub d: Half,
    /// Low 8 bits of the grid index of each 4 elements.
    pub qs: [u8; 64],
    /// Ninth bits of eight grid indices, lowest bit first, per 32 elements.
    pub qh: [u8; 8],
    /// Signs of each 8 elements.
    pub signs: [u8; 32],
    /// Scales of 4 bits of two groups of 32, low nibble first.
    pub scales: [u8; 4],
}

packed_format!(IQ3_S, elements: 256, bytes: 110, partner: Q8_K);

impl Packed for IQ3_S {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let (mut magnitudes, mut masks) = ([0; 256], [0; 256]);
        for (r, low) in self.qs.iter().enumerate() {
            let high = (usize::from(self.qh[r / 8]) >> (r % 8)) & 1;
            place(&mut magnitudes, r, &IQ3S_GRID[usize::from(*low) | (high << 8)]);
        }
        for (r, sign) in self.signs.iter().enumerate() {
            place(&mut masks, r, &SIGN_MASKS[usize::from(*sign)]);
        }
        signed(&magnitudes, &masks)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        let d = self.d.to_f32();
        let mut scales = [0.0; 8];
        for (b, scale) in scales.iter_mut().enumerate() {
            let s = (self.scales[b / 2] >> (4 * (b % 2))) & 15;
            *scale = d * f32::from(1 + 2 * s);
        }
        scales
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
