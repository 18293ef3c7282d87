//! NVFP4: 64 elements in 36 bytes, E2M1 values with an E4M3 scale per 16. The scale of the whole
//! tensor that such models have is a tensor of its own and not applied here.

use crate::Packed;
use crate::codebook::{KVALUES_FP4, UE4M3_HALF};
use crate::format::packed_format;
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
