//! Block formats of quantised weights: what the bytes mean.
//!
//! A weight row is a run of blocks; a block holds some scales and a code per element. This crate
//! is the definition of every format: its layout (a `repr(C)` struct), its decoder (bit-exact),
//! its encoder where there is one, the check of its scales, and the dot product that other
//! implementations are held against. It is scalar code written so that the compiler can vectorise
//! it inside a caller's `#[target_feature]` function. Source: docs/formats.md, sections 1 to 4.
//!
//! * [`BlockFormat`]: what any format offers (also F32, F16, BF16).
//! * [`Packed`]: the formats whose element is `scale * code (+ offset)`, which is all the others.
//! * [`with_format`] and [`with_packed`]: from a run-time [`TensorType`] to a compile-time format.
//! * [`decode_row`], [`check_row`], [`encode_row`], [`dot`]: the same by run-time type.
//! * [`quantise_activation`]: the activation side of the integer dot products.
//!
//! A new format is one file in `formats/` and its name in the lists of `formats/mod.rs` and
//! `registry.rs` (and of `encode.rs` if it can be written).

#![forbid(unsafe_code)]
#![allow(non_camel_case_types, reason = "block types carry the names of the format table")]

mod activation;
pub mod codebook;
mod dot;
mod encode;
mod error;
mod field;
mod format;
mod formats;
mod registry;
mod rounding;
mod search;

pub use activation::quantise_activation;
pub use dot::dot;
pub use encode::{ENCODABLE, Encode, Source, encode_row};
pub use error::Error;
pub use field::{Half, Le16, Le32};
pub use format::{BlockFormat, Packed};
pub use formats::*;
pub use gguf::TensorType;
pub use registry::{FormatVisitor, PackedVisitor, check_row, decode_row, with_format, with_packed};
