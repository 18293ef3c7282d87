//! IQ4_XS: 256 elements in 136 bytes, (d * (scale - 32)) times a value from the IQ4_NL table.

use super::iq4_nl::{codes_for, fit_table};
use super::nibbles;
use crate::codebook::KVALUES_IQ4NL;
use crate::encode::mean_square;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{reciprocal_or_zero, round_even, signed_peak};
use crate::{Half, Le16, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of IQ4_XS.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct IQ4_XS {
    /// Scale of the scales.
    pub d: Half,
    /// High 2 bits of the scale of group b in bits 2b..2b+2.
    pub scales_h: Le16,
    /// Low 4 bits of the scales of two groups, low nibble first.
    pub scales_l: [u8; 4],
    /// Per 32 elements: byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [[u8; 16]; 8],
}

packed_format!(IQ4_XS, elements: 256, bytes: 136, partner: Q8_K);

impl Packed for IQ4_XS {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (bytes, codes) in self.qs.iter().zip(codes.as_chunks_mut::<32>().0) {
            *codes = nibbles::look_up(&KVALUES_IQ4NL, bytes);
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        let d = self.d.to_f32();
        let mut scales = [0.0; 8];
        for (b, scale) in scales.iter_mut().enumerate() {
            let low = (self.scales_l[b / 2] >> (4 * (b % 2))) & 15;
            let high = ((self.scales_h.get() >> (2 * b)) & 3) as u8;
            *scale = d * f32::from((low | (high << 4)) as i8 - 32);
        }
        scales
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

impl EncodeBlock for IQ4_XS {
    /// Each group's scale is searched for as in IQ4_NL; the group scales are then rounded to 6
    /// bits and the codes recomputed with the rounded scales and the f32 scale of the block.
    fn encode_block(source: &Source<'_>) -> Self {
        let groups = source.values.as_chunks::<32>().0;
        let block_mean_square = 2.0 * mean_square(source.values);
        let mut fitted = [0.0; 8];
        for (b, x) in groups.iter().enumerate() {
            let importance = source.importance.map(|w| &w[32 * b..32 * (b + 1)]);
            fitted[b] = fit_table(x, importance, block_mean_square);
        }
        let d = -signed_peak(&fitted) / 32.0;
        let factor = reciprocal_or_zero(d);
        let (mut scales_h, mut scales_l, mut qs) = (0, [0; 4], [[0; 16]; 8]);
        for (b, x) in groups.iter().enumerate() {
            let scale = round_even(factor * fitted[b]).clamp(-32, 31);
            qs[b] = nibbles::pack(&codes_for(x, d * scale as f32));
            let stored = (scale + 32) as u8;
            scales_l[b / 2] |= (stored & 15) << (4 * (b % 2));
            scales_h |= u16::from(stored >> 4) << (2 * b);
        }
        Self { d: Half::from_f32(d), scales_h: Le16::new(scales_h), scales_l, qs }
    }
}
