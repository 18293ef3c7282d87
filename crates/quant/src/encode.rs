//! Encoding of weight rows: the traits, the checks and the dispatch. The encoders themselves are
//! in the formats' files, their common searches in `search.rs`.

use crate::formats::*;
use crate::registry::{check_blocks, row_blocks};
use crate::{BlockFormat, Error, Packed, TensorType};

/// The values of one block and what its row says about them.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The values, `ELEMENTS` of them, all finite.
    pub values: &'a [f32],
    /// How much an error in each of the values matters, if that is known. Not negative.
    pub importance: Option<&'a [f32]>,
    /// Mean square of the whole row, which some encoders add to the importance.
    pub row_mean_square: f32,
}

/// A format that can be written.
pub trait Encode: BlockFormat {
    /// Encodes one block.
    ///
    /// # Panics
    /// If `source` has not [`ELEMENTS`](BlockFormat::ELEMENTS) values or `out` not
    /// [`BYTES`](BlockFormat::BYTES) bytes.
    fn encode(source: &Source<'_>, out: &mut [u8]);

    /// Encodes a row. `importance` has one value per element; formats without a search ignore it.
    ///
    /// # Errors
    /// [`Error::RowLength`] or [`Error::RowBytes`] where `values` and `out` are not the same
    /// whole number of blocks; [`Error::ImportanceLength`], [`Error::BadImportance`] and
    /// [`Error::NonFinite`] for unusable input. Nothing is written in these cases.
    /// [`Error::BadScale`] if the values are too large for the format's scales; what was written
    /// is of no use then.
    fn encode_row(values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), Error> {
        row_blocks::<Self>(out.len(), values.len())?;
        check_values(Self::TYPE, values)?;
        if let Some(importance) = importance {
            check_importance(importance, values.len())?;
        }
        let row_mean_square = mean_square(values);
        for (b, out) in out.chunks_exact_mut(Self::BYTES).enumerate() {
            let range = b * Self::ELEMENTS..(b + 1) * Self::ELEMENTS;
            let source = Source {
                values: &values[range.clone()],
                importance: importance.map(|importance| &importance[range]),
                row_mean_square,
            };
            Self::encode(&source, out);
        }
        check_blocks::<Self>(out)
    }
}

/// A packed format that can be written: all there is to say is how a block is made.
pub(crate) trait EncodeBlock: Packed {
    /// The block for these values.
    fn encode_block(source: &Source<'_>) -> Self;
}

impl<F: EncodeBlock> Encode for F {
    fn encode(source: &Source<'_>, out: &mut [u8]) {
        assert_eq!(source.values.len(), F::ELEMENTS, "values of one block");
        out.copy_from_slice(bytemuck::bytes_of(&F::encode_block(source)));
    }
}

/// Hands the formats that have an encoder to a macro.
macro_rules! with_encodable {
    ($with:ident) => {
        $with!(
            F32, F16, BF16, Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL,
            IQ4_XS, MXFP4, NVFP4, TQ1_0, TQ2_0
        )
    };
}

/// Encodes a row to the type `ty`. See [`Encode::encode_row`].
///
/// # Errors
/// [`Error::Unsupported`] where the type has no encoder, else as [`Encode::encode_row`].
pub fn encode_row(
    ty: TensorType,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    macro_rules! encode {
        ($($format:ident),+) => {
            match ty {
                $(TensorType::$format => $format::encode_row(values, importance, out),)+
                _ => Err(Error::Unsupported { ty, operation: "encoder" }),
            }
        };
    }
    with_encodable!(encode)
}

macro_rules! types {
    ($($format:ident),+) => { &[$(TensorType::$format),+] };
}

/// The types that [`encode_row`] can write.
pub const ENCODABLE: &[TensorType] = with_encodable!(types);

fn check_values(ty: TensorType, values: &[f32]) -> Result<(), Error> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(Error::NonFinite { ty, index, value: values[index] }),
        None => Ok(()),
    }
}

fn check_importance(importance: &[f32], elements: usize) -> Result<(), Error> {
    if importance.len() != elements {
        return Err(Error::ImportanceLength { importance: importance.len(), elements });
    }
    match importance.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
        Some(index) => Err(Error::BadImportance { index, value: importance[index] }),
        None => Ok(()),
    }
}

/// Mean of the squares, summed in order; 0 for an empty slice.
pub(crate) fn mean_square(values: &[f32]) -> f32 {
    let sum = values.iter().fold(0.0, |sum, v| sum + v * v);
    if values.is_empty() { 0.0 } else { sum / values.len() as f32 }
}
