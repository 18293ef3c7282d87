//! From a run-time [`TensorType`] to a compile-time format, and the row functions built on it.

use crate::formats::*;
use crate::{BlockFormat, Error, Packed, TensorType};

/// What is to be done with a format once it is known at compile time.
pub trait FormatVisitor {
    /// Result of the visit.
    type Out;

    /// Called with the format of the type asked for.
    fn visit<F: BlockFormat>(self) -> Self::Out;
}

/// The same for the formats made of scales and codes.
pub trait PackedVisitor {
    /// Result of the visit.
    type Out;

    /// Called with the format of the type asked for.
    fn visit<F: Packed>(self) -> Self::Out;
}

/// Dispatches over a list of formats; the callers decide which formats are on theirs.
macro_rules! dispatch {
    ($ty:expr, $visitor:expr, [$($format:ident),+ $(,)?]) => {
        match $ty {
            $(TensorType::$format => Some($visitor.visit::<$format>()),)+
            _ => None,
        }
    };
}

/// Calls the visitor with the weight format of this type. `None` for types that are no weight
/// format: integers, F64, and the activation types Q8_1 and Q8_K.
#[inline]
pub fn with_format<V: FormatVisitor>(ty: TensorType, visitor: V) -> Option<V::Out> {
    struct Forward<V>(V);
    impl<V: FormatVisitor> PackedVisitor for Forward<V> {
        type Out = V::Out;
        #[inline]
        fn visit<F: Packed>(self) -> V::Out {
            self.0.visit::<F>()
        }
    }
    match ty {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => {
            dispatch!(ty, visitor, [F32, F16, BF16])
        }
        TensorType::Q8_1 | TensorType::Q8_K => None,
        _ => with_packed(ty, Forward(visitor)),
    }
}

/// Calls the visitor with the packed format of this type, Q8_1 and Q8_K included. `None` for the
/// plain types (floats and integers).
#[inline]
pub fn with_packed<V: PackedVisitor>(ty: TensorType, visitor: V) -> Option<V::Out> {
    #[rustfmt::skip]
    return dispatch!(ty, visitor, [
        Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1,
        Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K,
        IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS,
        MXFP4, NVFP4, TQ1_0, TQ2_0,
    ]);
}

/// Calls the visitor with any format that has a decoder, activations included.
fn with_any<V: FormatVisitor>(ty: TensorType, visitor: V) -> Option<V::Out> {
    match ty {
        TensorType::Q8_1 | TensorType::Q8_K => dispatch!(ty, visitor, [Q8_1, Q8_K]),
        _ => with_format(ty, visitor),
    }
}

/// Decodes a row (or any run of whole blocks) of any block type into `out`.
///
/// # Errors
/// [`Error::Unsupported`] for integer types and F64; [`Error::RowLength`] or [`Error::RowBytes`]
/// where `bytes` and `out` are not the same whole number of blocks. Nothing is written then.
pub fn decode_row(ty: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<(), Error> {
    struct Decode<'a>(&'a [u8], &'a mut [f32]);
    impl FormatVisitor for Decode<'_> {
        type Out = Result<(), Error>;
        fn visit<F: BlockFormat>(self) -> Self::Out {
            row_blocks::<F>(self.0.len(), self.1.len())?;
            F::decode_blocks(self.0, self.1);
            Ok(())
        }
    }
    with_any(ty, Decode(bytes, out))
        .unwrap_or(Err(Error::Unsupported { ty, operation: "block decoder" }))
}

/// Checks that no scale in a row (or any run of whole blocks) is infinite, NaN or reserved.
/// In F32, F16 and BF16 the elements themselves are checked.
///
/// # Errors
/// [`Error::BadScale`] for the first bad block; [`Error::RowBytes`] where `bytes` is not a whole
/// number of blocks; [`Error::Unsupported`] for integer types and F64.
pub fn check_row(ty: TensorType, bytes: &[u8]) -> Result<(), Error> {
    struct Check<'a>(&'a [u8]);
    impl FormatVisitor for Check<'_> {
        type Out = Result<(), Error>;
        fn visit<F: BlockFormat>(self) -> Self::Out {
            check_blocks::<F>(self.0)
        }
    }
    with_any(ty, Check(bytes))
        .unwrap_or(Err(Error::Unsupported { ty, operation: "check of its scales" }))
}

/// [`check_row`] of a format known at compile time.
pub(crate) fn check_blocks<F: BlockFormat>(bytes: &[u8]) -> Result<(), Error> {
    let elements = (bytes.len() / F::BYTES).saturating_mul(F::ELEMENTS);
    row_blocks::<F>(bytes.len(), elements)?;
    for (block, bytes) in bytes.chunks_exact(F::BYTES).enumerate() {
        if let Some(field) = F::bad_scale(bytes) {
            return Err(Error::BadScale { ty: F::TYPE, block, field });
        }
    }
    Ok(())
}

/// The number of blocks in a row, if bytes and elements agree on it.
pub(crate) fn row_blocks<F: BlockFormat>(bytes: usize, elements: usize) -> Result<usize, Error> {
    let (ty, block_elements, block_bytes) = (F::TYPE, F::ELEMENTS, F::BYTES);
    if !elements.is_multiple_of(block_elements) {
        return Err(Error::RowLength { ty, elements, block_elements });
    }
    let blocks = elements / block_elements;
    if !bytes.is_multiple_of(block_bytes) || bytes / block_bytes != blocks {
        return Err(Error::RowBytes { ty, bytes, elements, block_elements, block_bytes });
    }
    Ok(blocks)
}
