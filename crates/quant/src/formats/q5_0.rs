//! Q5_0: 32 elements in 22 bytes, (5-bit code - 16) * d.

use super::nibbles;
use super::q4_0::encode_symmetric;
use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::{Half, Le32, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of Q5_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q5_0 {
    /// Scale.
    pub d: Half,
    /// Fifth bit of element j in bit j.
    pub qh: Le32,
    /// Byte k carries elements k (low nibble) and k + 16 (high).
    pub qs: [u8; 16],
}

packed_format!(Q5_0, elements: 32, bytes: 22, partner: Q8_0);

impl Packed for Q5_0 {
    type Codes = [i8; 32];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 32] {
        nibbles::unpack_5(&self.qs, self.qh.get()).map(|code| code as i8 - 16)
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}

impl EncodeBlock for Q5_0 {
    fn encode_block(source: &Source<'_>) -> Self {
        let (d, codes) = encode_symmetric::<16>(source);
        let (qs, fifth) = nibbles::pack_5(&codes);
        Self { d: Half::from_f32(d), qh: Le32::new(fifth), qs }
    }
}
