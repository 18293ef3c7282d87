//! Q6_K: 256 elements in 210 bytes, (d * scale) * code with codes -32..=31 in groups of 16.

use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{round_even, signed_peak};
use crate::search::{NEGLIGIBLE, fit_symmetric};
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

impl Q6_K {
    /// The inverse of [`Packed::codes`].
    fn pack(codes: &[i8; 256]) -> ([u8; 128], [u8; 64]) {
        let (mut ql, mut qh) = ([0; 128], [0; 64]);
        for (i, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            let (n, k) = (i / 4, i % 4);
            for (l, code) in codes.iter().enumerate() {
                let code = (code + 32) as u8;
                ql[64 * n + 32 * (k % 2) + l] |= (code & 15) << (4 * (k / 2));
                qh[32 * n + l] |= (code >> 4) << (2 * k);
            }
        }
        (ql, qh)
    }
}

impl EncodeBlock for Q6_K {
    /// Each group's scale is searched for; the group scales are then rounded to 8 bits and the
    /// codes recomputed with what they decode to.
    fn encode_block(source: &Source<'_>) -> Self {
        let groups = source.values.as_chunks::<16>().0;
        let (mut fitted, mut codes) = ([0.0; 16], [0; 256]);
        for (g, x) in groups.iter().enumerate() {
            let mut weights = x.map(|x| x * x);
            if let Some(importance) = source.importance {
                weights.copy_from_slice(&importance[16 * g..16 * (g + 1)]);
            }
            let fit = fit_symmetric(x, &weights, 32);
            fitted[g] = fit.scale;
            codes[16 * g..16 * (g + 1)].copy_from_slice(&fit.codes);
        }
        let peak = signed_peak(&fitted);
        if peak.abs() < NEGLIGIBLE {
            return Self::zeroed();
        }
        let factor = -128.0 / peak;
        let d = Half::from_f32(1.0 / factor);
        let scales = fitted.map(|scale| round_even(factor * scale).clamp(-128, 127) as i8);
        for ((x, codes), scale) in groups.iter().zip(codes.as_chunks_mut::<16>().0).zip(scales) {
            let step = d.to_f32() * f32::from(scale);
            if step != 0.0 {
                *codes = x.map(|x| round_even(x / step).clamp(-32, 31) as i8);
            }
        }
        let (ql, qh) = Self::pack(&codes);
        Self { ql, qh, scales, d }
    }
}
