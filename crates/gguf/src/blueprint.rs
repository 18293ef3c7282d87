//! A file before its data exists: the header's bytes and the place of every tensor. For programs
//! that put the data in place themselves, in any order and over several runs.

use std::path::Path;

use crate::TensorType;
use crate::encode;
use crate::error::Error;
use crate::fault::Fault;
use crate::metadata::Metadata;
use crate::reader;
use crate::tensor::{self, TensorInfo};

/// One file as it will be, version 3.
#[derive(Debug, Clone)]
pub struct Blueprint {
    header: Vec<u8>,
    tensors: Vec<TensorInfo>,
    file_bytes: u64,
}

/// A tensor that is to be in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The name, unique in the file.
    pub name: String,
    /// Elements per dimension in ggml order, the row length first.
    pub dims: Vec<u64>,
    /// How the elements are stored.
    pub ty: TensorType,
}

impl Blueprint {
    /// Lays out a file: the tensors follow one another in the order given, each at a multiple of
    /// the alignment (`general.alignment` of the metadata, or 32). All metadata is written,
    /// split keys included. `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Malformed`] for keys, names and shapes that the reader would refuse.
    pub fn new(path: &Path, metadata: &Metadata, tensors: &[Outline]) -> Result<Blueprint, Error> {
        lay_out(metadata, tensors).map_err(|fault| Error::malformed(path, fault))
    }

    /// The first bytes of the file, up to where the data section begins.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The tensors with their places; a tensor's first byte is at `header().len() + offset`.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Bytes of the whole file, the last tensor's padding included.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

fn lay_out(metadata: &Metadata, outlines: &[Outline]) -> Result<Blueprint, Fault> {
    check_keys(metadata)?;
    let alignment = reader::alignment(metadata)?;
    let mut tensors = Vec::with_capacity(outlines.len());
    for (index, Outline { name, dims, ty }) in (0..).zip(outlines) {
        tensor::check_name(index, 0, name)?;
        tensors.push(TensorInfo::new(name, dims, *ty)?);
    }
    tensor::check_unique(&tensors)?;
    let data_bytes = place(&mut tensors, u64::from(alignment))?;
    let header = encode::header(metadata, &tensors, alignment);
    // Both are far below the end of the number range: `place` has checked the data.
    let file_bytes = (header.len() as u64).saturating_add(data_bytes);
    Ok(Blueprint { header, tensors, file_bytes })
}

/// Refuses keys that the format does not allow.
pub(crate) fn check_keys(metadata: &Metadata) -> Result<(), Fault> {
    for (index, (key, _)) in (0..).zip(metadata.iter()) {
        reader::check_key_length(index, 0, key.len() as u64)?;
    }
    Ok(())
}

/// Gives the tensors their offsets, one after the other; returns the bytes of all.
pub(crate) fn place(tensors: &mut [TensorInfo], alignment: u64) -> Result<u64, Fault> {
    let mut offset = 0u64;
    for tensor in tensors {
        tensor.offset = offset;
        let end = tensor.bytes.checked_next_multiple_of(alignment);
        offset = match end.and_then(|bytes| offset.checked_add(bytes)) {
            Some(offset) => offset,
            None => {
                let (tensor, ty, dims) = (tensor.name.clone(), tensor.ty, tensor.dims.clone());
                return Err(Fault::ByteCount { tensor, ty, dims });
            }
        };
    }
    Ok(offset)
}
