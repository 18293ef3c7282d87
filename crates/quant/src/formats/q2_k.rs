//! Q2_K: 256 elements in 84 bytes, (d * scale) * 2-bit code - (dmin * minimum) in groups of 16.

use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q2_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q2_K {
    /// Per group of 16: scale in the low nibble, minimum in the high one.
    pub scales: [u8; 16],
    /// Codes: bits 2k of byte 32n + l belong to element 128n + 32k + l.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

packed_format!(Q2_K, elements: 256, bytes: 84, partner: Q8_K);

impl Packed for Q2_K {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, code) in codes.iter_mut().enumerate() {
                *code = ((self.qs[32 * n + l] >> (2 * k)) & 3) as i8;
            }
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 16] {
        let d = self.d.to_f32();
        self.scales.map(|byte| d * f32::from(byte & 15))
    }

    #[inline(always)]
    fn offsets(&self) -> Option<[f32; 16]> {
        let dmin = self.dmin.to_f32();
        Some(self.scales.map(|byte| -(dmin * f32::from(byte >> 4))))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32()), ("dmin", self.dmin.to_f32())])
    }
}
