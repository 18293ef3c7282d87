//! TQ1_0: 256 trits in 54 bytes, five to a byte: -d, 0, +d.

use crate::encode::{EncodeBlock, Source};
use crate::format::{first_non_finite, packed_format};
use crate::rounding::{peak_magnitude, reciprocal_or_zero, round_away};
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

/// The trit 0, 1 or 2 of a value in units of the block's scale.
pub(super) fn to_trit(x: f32, factor: f32) -> u8 {
    (round_away(x * factor) + 1).clamp(0, 2) as u8
}

/// The inverse of [`unpack_runs`] for trits 0, 1, 2, the first of five the most significant.
fn pack_runs<const S: usize>(trits: &[u8]) -> [u8; S] {
    let mut values = [0u32; S];
    for n in 0..POW3.len() {
        let run = trits.get(S * n..S * (n + 1)).unwrap_or(&[0; S]);
        for (value, trit) in values.iter_mut().zip(run) {
            *value = 3 * *value + u32::from(*trit);
        }
    }
    // A byte is the value in 256ths of 3^5, rounded up so that the top trit reads back.
    values.map(|value| (256 * value).div_ceil(243) as u8)
}

impl EncodeBlock for TQ1_0 {
    /// Ternary rounding with the largest magnitude as the scale. Importance is ignored.
    fn encode_block(source: &Source<'_>) -> Self {
        let d = peak_magnitude(source.values);
        let factor = reciprocal_or_zero(d);
        let trits: Vec<u8> = source.values.iter().map(|x| to_trit(*x, factor)).collect();
        Self {
            wide: pack_runs(&trits[..160]),
            narrow: pack_runs(&trits[160..240]),
            last: pack_runs(&trits[240..]),
            d: Half::from_f32(d),
        }
    }
}
