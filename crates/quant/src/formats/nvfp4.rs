//! NVFP4: 64 elements in 36 bytes, E2M1 values with an E4M3 scale per 16. The scale of the whole
//! tensor that such models have is a tensor of its own and not applied here.

use super::mxfp4::nearest_fp4;
use crate::Packed;
use crate::codebook::{KVALUES_FP4, UE4M3_HALF};
use crate::encode::{EncodeBlock, Source};
use crate::format::packed_format;
use crate::rounding::peak_magnitude;
use bytemuck::{Pod, Zeroable};

/// Block of NVFP4.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct NVFP4 {
    /// Unsigned E4M3 scale of each 16 elements.
    pub scales: [u8; 4],
    /// Per 16 elements: byte k carries elements k (low nibble) and k + 8 (high).
    pub qs: [[u8; 8]; 4],
}

packed_format!(NVFP4, elements: 64, bytes: 36, partner: Q8_0);

impl Packed for NVFP4 {
    type Codes = [i8; 64];
    type Groups = [f32; 4];

    #[inline(always)]
    fn codes(&self) -> [i8; 64] {
        let mut codes = [0; 64];
        for (bytes, codes) in self.qs.iter().zip(codes.as_chunks_mut::<16>().0) {
            for (k, byte) in bytes.iter().enumerate() {
                codes[k] = KVALUES_FP4[usize::from(byte & 15)];
                codes[k + 8] = KVALUES_FP4[usize::from(byte >> 4)];
            }
        }
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 4] {
        self.scales.map(|byte| UE4M3_HALF[usize::from(byte)])
    }

    fn bad_field(&self) -> Option<&'static str> {
        None
    }
}

/// The unsigned E4M3 byte of a value of at least 0, halves rounded up. Two quirks of the reference
/// are kept for equal bytes: what is below the normal range never rounds up into it, and all of
/// 256 and above (also after rounding) becomes 448, the largest value.
fn to_ue4m3(x: f32) -> u8 {
    const LARGEST: u8 = 0x7E;
    const LARGEST_SUBNORMAL: u8 = 0x07;
    const SMALLEST_NORMAL: f32 = 1.0 / 64.0;
    const SUBNORMALS_PER_UNIT: f32 = 512.0;
    if x < SMALLEST_NORMAL {
        return ((x * SUBNORMALS_PER_UNIT + 0.5) as u8).min(LARGEST_SUBNORMAL);
    }
    // The f32 bits from the third of the mantissa up are exponent and mantissa of E4M3 but for
    // the bias; a carry out of the mantissa raises the exponent as it should.
    let rounded = (x.to_bits() + (1 << 19)) >> 20;
    let byte = rounded - ((127 - 7) << 3);
    if byte < 0x78 { byte as u8 } else { LARGEST }
}

impl EncodeBlock for NVFP4 {
    /// Brings the largest magnitude of each 16 to 6, the largest E2M1 value. Importance is
    /// ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let mut block = Self { scales: [0; 4], qs: [[0; 8]; 4] };
        for (s, x) in source.values.as_chunks::<16>().0.iter().enumerate() {
            let byte = to_ue4m3(peak_magnitude(x) / 6.0);
            let codes = x.map(|x| nearest_fp4(x, UE4M3_HALF[usize::from(byte)]));
            block.scales[s] = byte;
            for (k, byte) in block.qs[s].iter_mut().enumerate() {
                *byte = codes[k] | (codes[k + 8] << 4);
            }
        }
        block
    }
}
