//! Q5_K: 256 elements in 176 bytes, (d * scale) * 5-bit code - (dmin * minimum) in groups of 32.

use super::q4_k::{pack_nibbles, unpack_nibbles};
use super::six_bit;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::search::Steps;
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q5_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q5_K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight scales and eight minima of 6 bits.
    pub scales: [u8; 12],
    /// Fifth bits: bit k of byte l belongs to element 32k + l.
    pub qh: [u8; 32],
    /// Byte 32p + l carries elements 64p + l (low nibble) and 64p + 32 + l (high).
    pub qs: [u8; 128],
}

packed_format!(Q5_K, elements: 256, bytes: 176, partner: Q8_K);

impl Packed for Q5_K {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = unpack_nibbles(&self.qs);
        for (k, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, high) in codes.iter_mut().zip(&self.qh) {
                *code |= ((high >> k) & 1) << 4;
            }
        }
        bytemuck::cast(codes)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 8] {
        six_bit::scaled(self.d.to_f32(), six_bit::unpack(&self.scales).0)
    }

    #[inline(always)]
    fn offsets(&self) -> Option<[f32; 8]> {
        Some(six_bit::scaled(-self.dmin.to_f32(), six_bit::unpack(&self.scales).1))
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32()), ("dmin", self.dmin.to_f32())])
    }
}

impl EncodeBlock for Q5_K {
    fn encode_block(source: &Source<'_>) -> Self {
        const STEPS: Steps = Steps { start: -0.5, step: 0.1, last: 15 };
        let block = six_bit::encode(source, 31, STEPS);
        let mut qh = [0; 32];
        for (k, codes) in block.codes.as_chunks::<32>().0.iter().enumerate() {
            for (high, code) in qh.iter_mut().zip(codes) {
                *high |= (code >> 4) << k;
            }
        }
        let qs = pack_nibbles(&block.codes);
        Self { d: block.d, dmin: block.dmin, scales: block.scales, qh, qs }
    }
}
