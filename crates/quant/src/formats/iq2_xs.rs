//! IQ2_XS: 256 elements in 74 bytes; rows of 8 magnitudes from a grid of 512, 7-bit sign indices.

use super::lattice::{nibble_scales, place, signed};
use crate::codebook::{IQ2XS_GRID, KSIGN_MASKS};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le16, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ2_XS.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ2_XS {
    /// Scale.
    pub d: Half,
    /// Per 8 elements: bits 0..9 grid index, bits 9..16 sign index.
    pub qs: [Le16; 32],
    /// Per 32 elements: scale of the first 16 in the low nibble, of the other 16 in the high one.
    pub scales: [u8; 8],
}

packed_format!(IQ2_XS, elements: 256, bytes: 74, partner: Q8_K);

impl Packed for IQ2_XS {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let (mut magnitudes, mut masks) = ([0; 256], [0; 256]);
        for (r, q) in self.qs.iter().enumerate() {
            place(&mut magnitudes, r, &IQ2XS_GRID[usize::from(q.get() & 511)]);
            place(&mut masks, r, &KSIGN_MASKS[usize::from(q.get() >> 9)]);
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
