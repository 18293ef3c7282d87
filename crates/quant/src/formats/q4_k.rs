//! Q4_K: 256 elements in 144 bytes, (d * scale) * nibble - (dmin * minimum) in groups of 32.

use super::six_bit;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::search::Steps;
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q4_K.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q4_K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight scales and eight minima of 6 bits.
    pub scales: [u8; 12],
    /// Byte 32p + l carries elements 64p + l (low nibble) and 64p + 32 + l (high).
    pub qs: [u8; 128],
}

packed_format!(Q4_K, elements: 256, bytes: 144, partner: Q8_K);

/// The nibbles of Q4_K and the low four bits of Q5_K, in element order.
#[inline(always)]
pub(super) fn unpack_nibbles(bytes: &[u8; 128]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (j, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (l, code) in codes.iter_mut().enumerate() {
            *code = (bytes[32 * (j / 2) + l] >> (4 * (j % 2))) & 15;
        }
    }
    codes
}

/// The inverse of [`unpack_nibbles`]; bits above the fourth are dropped.
pub(super) fn pack_nibbles(codes: &[u8; 256]) -> [u8; 128] {
    let mut bytes = [0; 128];
    for (bytes, codes) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<64>().0) {
        for (l, byte) in bytes.iter_mut().enumerate() {
            *byte = (codes[l] & 15) | (codes[l + 32] << 4);
        }
    }
    bytes
}

impl Packed for Q4_K {
    type Codes = [i8; 256];
    type Groups = [f32; 8];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        bytemuck::cast(unpack_nibbles(&self.qs))
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

impl EncodeBlock for Q4_K {
    fn encode_block(source: &Source<'_>) -> Self {
        const STEPS: Steps = Steps { start: -1.0, step: 0.1, last: 20 };
        let block = six_bit::encode(source, 15, STEPS);
        let qs = pack_nibbles(&block.codes);
        Self { d: block.d, dmin: block.dmin, scales: block.scales, qs }
    }
}
