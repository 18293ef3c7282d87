//! The two traits of the crate: [`BlockFormat`] and, for all but the float types, [`Packed`].

use crate::TensorType;
use bytemuck::Pod;

/// A weight format: rows are runs of blocks of [`BYTES`](Self::BYTES) bytes, each of which decodes
/// to [`ELEMENTS`](Self::ELEMENTS) f32 values.
pub trait BlockFormat: Sized + 'static {
    /// The run-time type.
    const TYPE: TensorType;
    /// Elements in a block.
    const ELEMENTS: usize;
    /// Bytes in a block.
    const BYTES: usize;
    /// The type to which activations are brought for the reference dot product.
    const DOT_PARTNER: TensorType;

    /// Decodes one block. Every operation is f32, rounded on its own, so the result is bit-exact.
    ///
    /// # Panics
    /// If `block` has not [`BYTES`](Self::BYTES) bytes or `out` not [`ELEMENTS`](Self::ELEMENTS)
    /// values.
    fn decode(block: &[u8], out: &mut [f32]);

    /// Decodes consecutive blocks; stops at the last whole block that both slices hold.
    #[inline(always)]
    fn decode_blocks(bytes: &[u8], out: &mut [f32]) {
        let blocks = bytes.chunks_exact(Self::BYTES);
        for (block, values) in blocks.zip(out.chunks_exact_mut(Self::ELEMENTS)) {
            Self::decode(block, values);
        }
    }

    /// The name of the first field that holds an infinite, NaN or reserved scale, if any does.
    /// All other bytes are legal in every format.
    ///
    /// # Panics
    /// If `block` has not [`BYTES`](Self::BYTES) bytes.
    fn bad_scale(block: &[u8]) -> Option<&'static str>;
}

/// A format whose elements are `scale[group] * code (+ offset[group])` with 8-bit integer codes.
///
/// The implementing type is the block itself, a `repr(C)` struct of alignment 1. Decoding and the
/// reference dot product follow from these methods alone.
pub trait Packed: BlockFormat + Pod {
    /// `[i8; ELEMENTS]`.
    type Codes: AsRef<[i8]>;
    /// `[f32; GROUPS]`.
    type Groups: AsRef<[f32]>;
    /// Number of groups of elements that share a scale.
    const GROUPS: usize = size_of::<Self::Groups>() / size_of::<f32>();
    /// Elements in a group.
    const GROUP: usize = Self::ELEMENTS / Self::GROUPS;

    /// The codes in element order.
    fn codes(&self) -> Self::Codes;

    /// The scale of each group.
    fn scales(&self) -> Self::Groups;

    /// What is added to each element of a group after scaling, where the format has such a term.
    #[inline(always)]
    fn offsets(&self) -> Option<Self::Groups> {
        None
    }

    /// See [`BlockFormat::bad_scale`].
    fn bad_field(&self) -> Option<&'static str>;
}

/// [`BlockFormat::decode`] of every packed format.
#[inline(always)]
pub(crate) fn decode_packed<F: Packed>(block: &[u8], out: &mut [f32]) {
    let block: &F = bytemuck::from_bytes(block);
    assert_eq!(out.len(), F::ELEMENTS, "output length of one block");
    let (codes, scales, offsets) = (block.codes(), block.scales(), block.offsets());
    let groups = codes.as_ref().chunks_exact(F::GROUP).zip(out.chunks_exact_mut(F::GROUP));
    let groups = groups.zip(scales.as_ref());
    match offsets {
        None => {
            for ((codes, values), scale) in groups {
                for (value, &code) in values.iter_mut().zip(codes) {
                    *value = scale * f32::from(code);
                }
            }
        }
        Some(offsets) => {
            for (((codes, values), scale), offset) in groups.zip(offsets.as_ref()) {
                for (value, &code) in values.iter_mut().zip(codes) {
                    *value = scale * f32::from(code) + offset;
                }
            }
        }
    }
}

/// Implements [`BlockFormat`] for a [`Packed`] block and checks its layout at compile time.
macro_rules! packed_format {
    ($name:ident, elements: $elements:literal, bytes: $bytes:literal, partner: $partner:ident) => {
        impl $crate::BlockFormat for $name {
            const TYPE: $crate::TensorType = $crate::TensorType::$name;
            const ELEMENTS: usize = $elements;
            const BYTES: usize = $bytes;
            const DOT_PARTNER: $crate::TensorType = $crate::TensorType::$partner;

            #[inline(always)]
            fn decode(block: &[u8], out: &mut [f32]) {
                $crate::format::decode_packed::<Self>(block, out);
            }

            fn bad_scale(block: &[u8]) -> Option<&'static str> {
                $crate::Packed::bad_field(bytemuck::from_bytes::<Self>(block))
            }
        }

        const _: () = {
            use $crate::{BlockFormat, Packed, TensorType};
            // Alignment 1 rules out padding, so the size is the sum of the fields.
            assert!(align_of::<$name>() == 1 && size_of::<$name>() == $name::BYTES);
            assert!(TensorType::$name.block_bytes() == $name::BYTES);
            assert!(TensorType::$name.block_elements() == $name::ELEMENTS);
            assert!(size_of::<<$name as Packed>::Codes>() == $name::ELEMENTS);
            assert!($name::GROUP * $name::GROUPS == $name::ELEMENTS);
        };
    };
}
pub(crate) use packed_format;

/// The first name whose scale is infinite or NaN.
pub(crate) fn first_non_finite(fields: &[(&'static str, f32)]) -> Option<&'static str> {
    fields.iter().find(|(_, scale)| !scale.is_finite()).map(|(name, _)| *name)
}
