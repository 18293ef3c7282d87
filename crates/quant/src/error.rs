//! The crate's error type.

use crate::TensorType;

/// Why a row could not be decoded, checked, encoded or multiplied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The operation does not exist for this type.
    #[error("{} has no {operation}; choose another tensor type", ty.name())]
    Unsupported {
        /// The tensor type asked for.
        ty: TensorType,
        /// What was to be done, as a noun ("decoder", "encoder"...).
        operation: &'static str,
    },
    /// The number of elements is not a whole number of blocks.
    #[error(
        "a row of {elements} elements is not a whole number of {} blocks of {block_elements}; \
         store the row in a type whose block divides it",
        ty.name()
    )]
    RowLength {
        /// The tensor type.
        ty: TensorType,
        /// Elements in the row.
        elements: usize,
        /// Elements in one block.
        block_elements: usize,
    },
    /// The number of bytes does not belong to the number of elements.
    #[error(
        "{bytes} bytes cannot be a {} row of {elements} elements: a block is {block_elements} \
         elements in {block_bytes} bytes; the file is damaged or the shape is wrong",
        ty.name()
    )]
    RowBytes {
        /// The tensor type.
        ty: TensorType,
        /// Bytes given.
        bytes: usize,
        /// Elements expected.
        elements: usize,
        /// Elements in one block.
        block_elements: usize,
        /// Bytes in one block.
        block_bytes: usize,
    },
    /// A scale that no encoder writes: infinite, NaN or reserved.
    #[error(
        "block {block} of a {} row has an infinite, NaN or reserved {field}; \
         the weights are damaged or out of the format's range",
        ty.name()
    )]
    BadScale {
        /// The tensor type.
        ty: TensorType,
        /// Index of the first bad block in the bytes given.
        block: usize,
        /// Name of the bad field, as in the format's layout.
        field: &'static str,
    },
    /// A value to encode is infinite or NaN.
    #[error(
        "element {index} is {value}, which {} cannot hold; repair the source weights",
        ty.name()
    )]
    NonFinite {
        /// The tensor type.
        ty: TensorType,
        /// Index of the element in the row.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The importance has not one value per element.
    #[error("{importance} importance values for a row of {elements} elements; they must agree")]
    ImportanceLength {
        /// Importance values given.
        importance: usize,
        /// Elements in the row.
        elements: usize,
    },
    /// An importance value is negative, infinite or NaN.
    #[error("importance {value} of column {index} is negative or not finite; recompute it")]
    BadImportance {
        /// Column.
        index: usize,
        /// The value.
        value: f32,
    },
}
