//! The files to be written, laid out before any weight is read.

use std::path::{Path, PathBuf};

use gguf::{Blueprint, Metadata, Outline, TensorType};

use super::{Error, Narrow};

/// Values per row at most: far above any model's width, and 64 MiB in f32.
pub(crate) const MAX_ROW: u64 = 1 << 24;

/// A tensor that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTensor {
    /// The name.
    pub name: String,
    /// Dimensions, the row length first.
    pub dims: Vec<u64>,
    /// The format to be written.
    pub ty: TensorType,
    /// True if its rows are encoded; false if its bytes are copied as they are.
    pub encoded: bool,
}

/// A file that is to be written.
#[derive(Clone, Debug)]
pub struct PlannedPart {
    /// All of its metadata, split keys included.
    pub metadata: Metadata,
    /// Its tensors in order.
    pub tensors: Vec<PlannedTensor>,
}

/// What is to be written: one file, or the parts of a split model.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The files.
    pub parts: Vec<PlannedPart>,
}

/// A [`Plan`] with its files' names, checked, and every tensor in its place.
#[derive(Debug)]
pub struct Target {
    pub(crate) parts: Vec<Part>,
    /// Tensors of all parts in order.
    pub(crate) places: Vec<Place>,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) header: Vec<u8>,
    pub(crate) bytes: u64,
}

/// A tensor, and where its bytes go. A tensor that is copied counts as rows of one byte.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) tensor: PlannedTensor,
    pub(crate) part: usize,
    /// First byte in the file.
    pub(crate) start: u64,
    pub(crate) rows: u64,
    /// Values per row.
    pub(crate) n_in: u64,
    pub(crate) row_bytes: u64,
}

impl Target {
    /// Lays out the files. `path` is that of a single file, or says how the parts are called; see
    /// [`gguf::split_paths`].
    ///
    /// # Errors
    /// [`Error::Narrow`] lists all tensors whose rows do not fit their formats;
    /// [`Error::LongRow`]; [`Error::Gguf`] for what the container does not allow.
    pub fn new(plan: &Plan, path: &Path) -> Result<Target, Error> {
        let tensors = plan.parts.iter().flat_map(|part| &part.tensors);
        check_rows(tensors.filter(|tensor| tensor.encoded))?;
        let count = u16::try_from(plan.parts.len()).unwrap_or(u16::MAX);
        let mut target = Target { parts: Vec::new(), places: Vec::new() };
        for (number, part) in plan.parts.iter().enumerate() {
            let path = gguf::split_paths(path, count).swap_remove(number);
            let outline = |tensor: &PlannedTensor| {
                let PlannedTensor { name, dims, ty, .. } = tensor.clone();
                Outline { name, dims, ty }
            };
            let outlines: Vec<Outline> = part.tensors.iter().map(outline).collect();
            let blueprint = Blueprint::new(&path, &part.metadata, &outlines)?;
            let data = blueprint.header().len() as u64;
            for (tensor, info) in part.tensors.iter().zip(blueprint.tensors()) {
                let (rows, n_in, row_bytes) = match tensor.encoded {
                    true => (info.rows(), info.n_in(), info.row_bytes()),
                    false => (info.bytes, 1, 1),
                };
                let start = data + info.offset;
                let tensor = tensor.clone();
                let place = Place { tensor, part: number, start, rows, n_in, row_bytes };
                target.places.push(place);
            }
            let (header, bytes) = (blueprint.header().to_vec(), blueprint.file_bytes());
            target.parts.push(Part { path, header, bytes });
        }
        Ok(target)
    }

    /// The tensors of all files in order.
    pub fn tensors(&self) -> impl Iterator<Item = &PlannedTensor> {
        self.places.iter().map(|place| &place.tensor)
    }

    /// The tensor of this number.
    pub(crate) fn tensor(&self, number: usize) -> &PlannedTensor {
        &self.places[number].tensor
    }

    /// Bytes of each tensor, without padding, in the order of [`Target::tensors`].
    pub fn tensor_bytes(&self) -> impl Iterator<Item = u64> {
        self.places.iter().map(|place| place.rows * place.row_bytes)
    }

    /// The files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| &*part.path)
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

fn check_rows<'a>(tensors: impl Iterator<Item = &'a PlannedTensor>) -> Result<(), Error> {
    let mut narrow = Vec::new();
    for PlannedTensor { name, dims, ty, .. } in tensors {
        let n_in = dims.first().copied().unwrap_or(1);
        if n_in > MAX_ROW {
            return Err(Error::LongRow { tensor: name.clone(), n_in, most: MAX_ROW });
        }
        if !n_in.is_multiple_of(ty.block_elements() as u64) {
            narrow.push(Narrow { tensor: name.clone(), dims: dims.clone(), ty: *ty });
        }
    }
    if narrow.is_empty() { Ok(()) } else { Err(Error::Narrow(narrow)) }
}
