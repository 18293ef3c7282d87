//! Q3_K: 256 elements in 110 bytes, (d * scale) * code with codes -4..=3 in groups of 16.

use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q3_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q3_K {
    /// High bits: bit k of byte l belongs to element 32k + l.
    pub hmask: [u8; 32],
    /// Low two bits: bits 2k of byte 32n + l belong to element 128n + 32k + l.
    pub qs: [u8; 64],
    /// Scales of 6 bits, less 32: nibbles of groups g and g + 8 in byte g % 8, then the high two
    /// bits of groups g, g + 4, g + 8, g + 12 in byte 8 + g % 4.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

packed_format!(Q3_K, elements: 256, bytes: 110, partner: Q8_K);

impl Packed for Q3_K {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, code) in codes.iter_mut().enumerate() {
                let low = (self.qs[32 * n + l] >> (2 * k)) & 3;
                let high = (self.hmask[l] >> i) & 1;
                *code = (low | (high << 2)) as i8 - 4;
            }
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 16] {
        let d = self.d.to_f32();
        let mut scales = [0.0; 16];
        for (g, scale) in scales.iter_mut().enumerate() {
            let low = (self.scales[g % 8] >> (4 * (g / 8))) & 15;
            let high = (self.scales[8 + g % 4] >> (2 * (g / 4))) & 3;
            *scale = d * f32::from((low | (high << 4)) as i8 - 32);
        }
        scales
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
