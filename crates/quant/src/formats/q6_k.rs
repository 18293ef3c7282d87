//! Q6_K: 256 elements in 210 bytes, (d * scale) * code with codes -32..=31 in groups of 16.

use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q6_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q6_K {
    /// Low nibbles: byte 64n + 32(k % 2) + l belongs to element 128n + 32k + l, its low nibble
    /// for k < 2 and its high one for k >= 2.
    pub ql: [u8; 128],
    /// High two bits: bits 2k of byte 32n + l belong to element 128n + 32k + l.
    pub qh: [u8; 64],
    /// Scale of each group of 16.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: Half,
}

packed_format!(Q6_K, elements: 256, bytes: 210, partner: Q8_K);

impl Packed for Q6_K {
    type Codes = [i8; 256];
    type Groups = [f32; 16];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, code) in codes.iter_mut().enumerate() {
                let low = (self.ql[64 * n + 32 * (k % 2) + l] >> (4 * (k / 2))) & 15;
                let high = (self.qh[32 * n + l] >> (2 * k)) & 3;
                *code = (low | (high << 4)) as i8 - 32;
            }
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 16] {
        let d = self.d.to_f32();
        self.scales.map(|scale| d * f32::from(scale))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
