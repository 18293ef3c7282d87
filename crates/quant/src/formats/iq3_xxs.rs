//! IQ3_XXS: 256 elements in 98 bytes; rows of 4 magnitudes from a grid of 256, 7-bit sign indices.

use super::lattice::{half_step_scale, place, signed};
use crate::codebook::{IQ3XXS_GRID, KSIGN_MASKS};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le32, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ3_XXS.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ3_XXS {
    /// Scale.
    pub d: Half,
    /// Grid index of each 4 elements.
    pub qs: [u8; 64],
    /// Per 32 elements. Bits 7l..7l+7: sign index of the l-th 8 elements; bits 28..32: scale.
    pub signs_scales: [Le32; 8],
}

packed_format!(IQ3_XXS, elements: 256, bytes: 98, partner: Q8_K);

impl Packed for IQ3_XXS {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let (mut magnitudes, mut masks) = ([0; 256], [0; 256]);
        for (r, index) in self.qs.iter().enumerate() {
            place(&mut magnitudes, r, &IQ3XXS_GRID[usize::from(*index)]);
        }
        for (b, word) in self.signs_scales.iter().enumerate() {
            for l in 0..4 {
                let sign = (word.get() >> (7 * l)) & 127;
                place(&mut masks, 4 * b + l, &KSIGN_MASKS[sign as usize]);
            }
        }
        signed(&magnitudes, &masks)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        let d = self.d.to_f32();
        self.signs_scales.map(|word| half_step_scale(d, word.get() >> 28, 0.5))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
