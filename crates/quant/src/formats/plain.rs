//! F32, F16 and BF16: one element per block, no scale.

use crate::{BlockFormat, Encode, Half, Source, TensorType};

/// IEEE binary32, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct F32;

/// IEEE binary16, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// The upper half of an IEEE binary32, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct BF16;

/// What a float type has of its own: N bytes and the conversion of one element.
trait Element<const N: usize> {
    fn to_f32(bytes: [u8; N]) -> f32;
    fn from_f32(value: f32) -> [u8; N];
}

impl Element<4> for F32 {
    #[inline(always)]
    fn to_f32(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
    fn from_f32(value: f32) -> [u8; 4] {
        value.to_le_bytes()
    }
}

impl Element<2> for F16 {
    #[inline(always)]
    fn to_f32(bytes: [u8; 2]) -> f32 {
        Half::from_bits(u16::from_le_bytes(bytes)).to_f32()
    }
    fn from_f32(value: f32) -> [u8; 2] {
        Half::from_f32(value).to_bits().to_le_bytes()
    }
}

impl Element<2> for BF16 {
    #[inline(always)]
    fn to_f32(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }
    fn from_f32(value: f32) -> [u8; 2] {
        half::bf16::from_f32_const(value).to_bits().to_le_bytes()
    }
}

#[inline(always)]
fn decode_elements<E: Element<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    for (element, value) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *value = E::to_f32(*element);
    }
}

macro_rules! plain_format {
    ($name:ident, $bytes:literal) => {
        impl BlockFormat for $name {
            const TYPE: TensorType = TensorType::$name;
            const ELEMENTS: usize = 1;
            const BYTES: usize = $bytes;
            const DOT_PARTNER: TensorType = TensorType::$name;

            #[inline(always)]
            fn decode(block: &[u8], out: &mut [f32]) {
                assert!(block.len() == $bytes && out.len() == 1, "one element");
                decode_elements::<Self, $bytes>(block, out);
            }

            #[inline(always)]
            fn decode_blocks(bytes: &[u8], out: &mut [f32]) {
                decode_elements::<Self, $bytes>(bytes, out);
            }

            fn bad_scale(block: &[u8]) -> Option<&'static str> {
                let mut value = [0.0];
                Self::decode(block, &mut value);
                (!value[0].is_finite()).then_some("value")
            }
        }

        impl Encode for $name {
            /// Rounds to nearest, ties to even. Importance is ignored.
            fn encode(source: &Source<'_>, out: &mut [u8]) {
                out.copy_from_slice(&<Self as Element<$bytes>>::from_f32(source.values[0]));
            }
        }

        const _: () = assert!(
            TensorType::$name.block_bytes() == $name::BYTES
                && TensorType::$name.block_elements() == $name::ELEMENTS
        );
    };
}

plain_format!(F32, 4);
plain_format!(F16, 2);
plain_format!(BF16, 2);
