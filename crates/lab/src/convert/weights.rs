//! The weights of a folder: `.safetensors` files, one or several with an index.
//!
//! A file is a 64-bit length, a JSON object of that many bytes with type, shape and place of each
//! tensor, and the data. Nothing in it is believed before it is compared with the file's length.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use gguf::TensorType;
use serde::Deserialize;

use super::Error;
use super::json;
use crate::transform::SharedFile;

const INDEX: &str = "model.safetensors.index.json";
const EXTENSION: &str = "safetensors";
/// Not a tensor: the file's notes about itself.
const NOTES: &str = "__metadata__";
/// Longest description of a file's tensors. The large model's have some ten kilobytes, a file
/// with each of 24,576 experts on its own would have ten megabytes.
const MAX_HEADER: u64 = 64 << 20;

/// A tensor of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Index into [`Weights::files`].
    pub(crate) file: usize,
    /// The type as the file spells it.
    pub(crate) dtype: String,
    /// The shape, the contiguous dimension last.
    pub(crate) shape: Vec<u64>,
    /// First byte in the file.
    pub(crate) start: u64,
}

/// All tensors of a folder by name, and the files that hold them.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    pub(crate) files: Vec<SharedFile>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) tensors: BTreeMap<String, Stored>,
}

/// What a file says about a tensor. All absent in its notes.
#[derive(Debug, Deserialize)]
struct Entry {
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
    data_offsets: Option<[u64; 2]>,
}

#[derive(Debug, Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

/// The types that weights can have, with how they are decoded.
pub(crate) fn float_type(dtype: &str) -> Option<TensorType> {
    match dtype {
        "F32" => Some(TensorType::F32),
        "F16" => Some(TensorType::F16),
        "BF16" => Some(TensorType::BF16),
        _ => None,
    }
}

/// Bytes of a value; None for a type that is unknown here, whose tensors can only be left out.
fn value_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" | "F8_E4M3" | "F8_E5M2" => 1,
        _ => return None,
    })
}

impl Weights {
    /// Reads what all files of a folder say about themselves.
    ///
    /// # Errors
    /// [`Error::NoWeights`], [`Error::MissingShards`], [`Error::Read`], [`Error::Malformed`].
    pub(crate) fn open(folder: &Path) -> Result<Weights, Error> {
        let index_path = folder.join(INDEX);
        let index: Option<Index> = json::read_if_there(&index_path)?;
        let names = match &index {
            Some(index) => shards(folder, &index_path, index)?,
            None => loose_files(folder)?,
        };
        let mut weights = Weights::default();
        for name in &names {
            weights.add(&folder.join(name))?;
        }
        for (tensor, shard) in index.iter().flat_map(|index| &index.weight_map) {
            let found = weights.tensors.get(tensor).map(|stored| names[stored.file].as_str());
            if found != Some(shard.as_str()) {
                let reason =
                    format!("tensor {tensor:?} is not in {shard:?}, where the index has it");
                return Err(Error::Malformed { path: index_path, reason });
            }
        }
        Ok(weights)
    }

    fn add(&mut self, path: &Path) -> Result<(), Error> {
        let malformed = |reason| Error::Malformed { path: path.to_owned(), reason };
        let file = SharedFile::open(path)?;
        let length = fs::metadata(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?
            .len();
        let mut number = [0; 8];
        if length < number.len() as u64 {
            return Err(malformed(format!("{length} bytes are no .safetensors file")));
        }
        file.read_at(0, &mut number)?;
        let header = u64::from_le_bytes(number);
        let data = 8 + header.min(MAX_HEADER);
        if header > MAX_HEADER || data > length {
            return Err(malformed(format!(
                "its description should have {header} bytes, and the file has {length}; the file \
                 is cut short, or no .safetensors file"
            )));
        }
        let mut text = vec![0; header as usize];
        file.read_at(8, &mut text)?;
        let entries: BTreeMap<String, Entry> = serde_json::from_slice(&text)
            .map_err(|error| malformed(format!("its description is damaged: {error}")))?;
        let mut places = Vec::with_capacity(entries.len());
        for (name, entry) in entries.into_iter().filter(|(name, _)| name != NOTES) {
            let (stored, end) = self.stored(entry, data, length).map_err(|reason| {
                malformed(format!("tensor {name:?}: {reason}; fetch the file again"))
            })?;
            places.push((stored.start, end, name.clone()));
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(malformed(format!("tensor {name:?} is in another file, too")));
            }
        }
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            let (first, second) = (&pair[0].2, &pair[1].2);
            return Err(malformed(format!("tensors {first:?} and {second:?} share bytes")));
        }
        self.files.push(file);
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// A tensor of the file that is being added, and where it ends.
    fn stored(&self, entry: Entry, data: u64, length: u64) -> Result<(Stored, u64), String> {
        let (Some(dtype), Some(shape), Some([start, end])) =
            (entry.dtype, entry.shape, entry.data_offsets)
        else {
            return Err("it lacks dtype, shape or data_offsets".to_owned());
        };
        let place = |at: u64| data.checked_add(at).filter(|at| *at <= length);
        let (Some(first), Some(last)) = (place(start), place(end).filter(|_| start <= end)) else {
            return Err(format!("its bytes {start} to {end} are not in the file ({length} bytes)"));
        };
        if let Some(bytes) = value_bytes(&dtype) {
            let expected = shape.iter().try_fold(bytes, |product, dim| product.checked_mul(*dim));
            if expected != Some(end - start) {
                return Err(format!("{dtype} {shape:?} does not have {} bytes", end - start));
            }
        }
        Ok((Stored { file: self.files.len(), dtype, shape, start: first }, last))
    }
}

/// The files that an index names, all of them there.
fn shards(folder: &Path, path: &Path, index: &Index) -> Result<Vec<String>, Error> {
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    let plain = |name: &str| Path::new(name).file_name() == Some(name.as_ref());
    if let Some(name) = names.iter().find(|name| !plain(name)) {
        let reason = format!("it names {name:?}, which is not a file of this folder");
        return Err(Error::Malformed { path: path.to_owned(), reason });
    }
    let absent = names.iter().filter(|name| !folder.join(name).is_file());
    let missing: Vec<String> = absent.map(|name| name.to_string()).collect();
    match (names.is_empty(), missing.is_empty()) {
        (true, _) => Err(Error::NoWeights { folder: folder.to_owned() }),
        (_, false) => Err(Error::MissingShards { missing, count: names.len() }),
        _ => Ok(names.into_iter().cloned().collect()),
    }
}

/// All files of weights of a folder without index.
fn loose_files(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_one = Path::new(&name).extension().is_some_and(|ext| ext == EXTENSION);
        names.extend(name.into_string().ok().filter(|_| is_one));
    }
    names.sort();
    if names.is_empty() { Err(Error::NoWeights { folder: folder.to_owned() }) } else { Ok(names) }
}
