//! TQ1_0: 256 trits in 54 bytes, five to a byte: -d, 0, +d.

use crate::format::{first_non_finite, packed_format};
use crate::{Half, Packed};
use bytemuck::{Pod, Zeroable};

/// Block of TQ1_0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TQ1_0 {
    /// Five trits to a byte: element i of 0..160 is trit i / 32 of byte i % 32.
    pub wide: [u8; 32],
    /// Elements 160..240 likewise with a stride of 16.
    pub narrow: [u8; 16],
    /// Four trits to a byte, elements 240..256 with a stride of 4.
    pub last: [u8; 4],
    /// Scale.
    pub d: Half,
}

packed_format!(TQ1_0, elements: 256, bytes: 54, partner: Q8_K);

/// Powers of 3 that bring trit n to the top of the byte.
const POW3: [u8; 5] = [1, 3, 9, 27, 81];

/// Writes -1, 0, 1 for trit n of each of the S bytes to run n of S codes.
#[inline(always)]
fn unpack_runs<const S: usize>(bytes: &[u8; S], codes: &mut [i8]) {
    for (codes, power) in codes.as_chunks_mut::<S>().0.iter_mut().zip(POW3) {
        for (code, byte) in codes.iter_mut().zip(bytes) {
            let fraction = u16::from(byte.wrapping_mul(power));
            *code = ((fraction * 3) >> 8) as i8 - 1;
        }
    }
}

impl Packed for TQ1_0 {
    type Codes = [i8; 256];
    type Groups = [f32; 1];

    #[inline(always)]
    fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        unpack_runs(&self.wide, &mut codes[..160]);
        unpack_runs(&self.narrow, &mut codes[160..240]);
        unpack_runs(&self.last, &mut codes[240..]);
        codes
    }

    #[inline(always)]
    fn scales(&self) -> [f32; 1] {
        [self.d.to_f32()]
    }

    fn bad_field(&self) -> Option<&'static str> {
        first_non_finite(&[("d", self.d.to_f32())])
    }
}
