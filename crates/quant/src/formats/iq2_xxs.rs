//! IQ2_XXS: 256 elements in 66 bytes; rows of 8 magnitudes from a grid of 256, 7-bit sign indices.

use super::lattice::{half_step_scale, place, signed};
use crate::codebook::{IQ2XXS_GRID, KSIGN_MASKS};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le32, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ2_XXS.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ2_XXS {
    /// Scale.
    pub d: Half,
    /// One per 32 elements.
    pub groups: [Iq2XxsGroup; 8],
}

/// 32 elements of [`IQ2_XXS`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Iq2XxsGroup {
    /// Grid index of each 8 elements.
    pub index: [u8; 4],
    /// Bits 7l..7l+7: sign index of the l-th 8 elements; bits 28..32: scale.
    pub signs_scale: Le32,
}

packed_format!(IQ2_XXS, elements: 256, bytes: 66, partner: Q8_K);

impl Packed for IQ2_XXS {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let (mut magnitudes, mut masks) = ([0; 256], [0; 256]);
        for (b, group) in self.groups.iter().enumerate() {
            let signs = group.signs_scale.get();
            for (l, index) in group.index.iter().enumerate() {
                let sign = (signs >> (7 * l)) & 127;
                place(&mut magnitudes, 4 * b + l, &IQ2XXS_GRID[usize::from(*index)]);
                place(&mut masks, 4 * b + l, &KSIGN_MASKS[sign as usize]);
            }
        }
        signed(&magnitudes, &masks)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        let d = self.d.to_f32();
        self.groups.map(|group| half_step_scale(d, group.signs_scale.get() >> 28, 0.25))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
