//! The GGUF container: read (memory-mapped, split files), check, write. No tensor arithmetic.
//!
//! [`Gguf::open`] opens a whole model, be it one file, any part of a split set, or a folder that
//! holds one model. Everything that can be wrong with the container is found there, before any
//! tensor data is touched; afterwards [`Gguf::bytes`] hands out views that are known to lie
//! inside the file. [`Writer`] writes the same container; [`Blueprint`] lays one out for programs
//! that write it piece by piece. The format and the order of checks are described in
//! `docs/formats.md`, sections 1 and 5; where that text leaves a choice, the choice made here is
//! written down in the `reader` module.

#![deny(unsafe_code)]

mod blueprint;
mod bytes;
mod cursor;
mod encode;
mod error;
mod fault;
mod folder;
mod fork;
mod layout;
#[allow(unsafe_code)]
mod map;
mod metadata;
mod model;
mod reader;
mod split;
mod temp;
mod tensor;
mod tensor_type;
mod value;
mod writer;

pub use blueprint::{Blueprint, Outline};
pub use bytes::Bytes;
pub use error::{Error, Origin, SplitFault};
pub use fault::Fault;
pub use metadata::Metadata;
pub use model::{Gguf, Locked, OpenOptions, ReadMode};
pub use split::{COUNT_KEY, split_paths};
pub use temp::TempFile;
pub use tensor::TensorInfo;
pub use tensor_type::{TensorType, TypeIdError};
pub use value::{Array, Value, ValueType};
pub use writer::{Source, SplitLimit, Writer};
