//! Importance matrices: how much an error in each column of a weight matters, measured on texts.
//!
//! Both forms of llama.cpp are read: the GGUF form (tensors `NAME.in_sum2` and `NAME.counts`, sums
//! of squared inputs and how often) and the older binary one (`.dat`). Columns of a matrix that no
//! token reached, as happens to rare experts, count alike.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Gguf, TensorInfo, TensorType};
use xxhash_rust::xxh3::Xxh3;

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
/// Longest name of a tensor in the older form; far above any.
const MAX_NAME: usize = 4096;
/// Largest file in the older form. That of the large model has 200 MB.
const MAX_BYTES: u64 = 4 << 30;

/// Why a file is no importance matrix, or not one of this model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImatrixError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The container is wrong.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// It is something else, or damaged.
    #[error("{} is no importance matrix: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is of another model.
    #[error(
        "the importance matrix has {found} values for tensor {tensor:?}, whose columns are \
         {expected}; it was made with another model"
    )]
    Length {
        /// The tensor.
        tensor: String,
        /// Values in the file.
        found: usize,
        /// Columns of all matrices of the tensor.
        expected: u64,
    },
}

/// Importance of the columns of a model's weights, by tensor.
#[derive(Clone, Debug, Default)]
pub struct Imatrix {
    /// Matrix after matrix, a value for each column.
    entries: HashMap<String, Vec<f32>>,
}

impl Imatrix {
    /// Reads a file of either form.
    ///
    /// # Errors
    /// All but [`ImatrixError::Length`].
    pub fn read(path: &Path) -> Result<Imatrix, ImatrixError> {
        let failed = |source| ImatrixError::Io { path: path.to_owned(), source };
        let malformed = |reason| ImatrixError::Malformed { path: path.to_owned(), reason };
        let mut start = [0; 4];
        let mut file = fs::File::open(path).map_err(failed)?;
        let is_gguf = std::io::Read::read_exact(&mut file, &mut start).is_ok() && &start == b"GGUF";
        let found = if is_gguf {
            of_gguf(&Gguf::open(path)?).map_err(malformed)?
        } else {
            let bytes = file.metadata().map_err(failed)?.len();
            if bytes > MAX_BYTES {
                return Err(malformed(format!("{bytes} bytes are too many")));
            }
            of_dat(&fs::read(path).map_err(failed)?).map_err(malformed)?
        };
        found.checked().map_err(malformed)
    }

    /// The number of tensors it speaks of.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if it speaks of none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Importance of the columns of all matrices of a tensor, `[matrix][n_in]`; None if the file
    /// does not speak of it.
    ///
    /// # Errors
    /// [`ImatrixError::Length`].
    pub fn columns(&self, tensor: &str, dims: &[u64]) -> Result<Option<&[f32]>, ImatrixError> {
        let Some(values) = self.entries.get(tensor) else { return Ok(None) };
        let dim = |i: usize| dims.get(i).copied().unwrap_or(1);
        let expected = dim(0).saturating_mul(dim(2)).saturating_mul(dim(3));
        if values.len() as u64 != expected {
            let (tensor, found) = (tensor.to_owned(), values.len());
            return Err(ImatrixError::Length { tensor, found, expected });
        }
        Ok(Some(values))
    }

    /// Importance of the columns of one row of a tensor; rows are counted through all matrices.
    ///
    /// # Errors
    /// [`ImatrixError::Length`].
    pub(crate) fn row(
        &self,
        tensor: &str,
        dims: &[u64],
        row: u64,
    ) -> Result<Option<&[f32]>, ImatrixError> {
        let dim = |i: usize| dims.get(i).copied().unwrap_or(1).max(1);
        let (n_in, matrix) = (dim(0) as usize, row / dim(1));
        let first = matrix as usize * n_in;
        Ok(self.columns(tensor, dims)?.and_then(|all| all.get(first..first + n_in)))
    }

    /// A hash of all of it.
    pub(crate) fn fingerprint(&self) -> u128 {
        let mut names: Vec<&String> = self.entries.keys().collect();
        names.sort();
        let mut hash = Xxh3::new();
        for name in names {
            hash.update(name.as_bytes());
            self.entries[name].iter().for_each(|value| hash.update(&value.to_le_bytes()));
        }
        hash.digest128()
    }

    fn checked(self) -> Result<Imatrix, String> {
        for (name, values) in &self.entries {
            if let Some(bad) = values.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(format!("tensor {name:?} has the importance {bad}"));
            }
        }
        match self.entries.is_empty() {
            true => Err("it speaks of no tensor".to_owned()),
            false => Ok(self),
        }
    }
}

/// Mean importance of a matrix's columns; alike where nothing was counted or nothing came in.
fn push_means(values: &mut Vec<f32>, sums: &[f32], count: f32) {
    let blank = count <= 0.0 || sums.iter().all(|sum| *sum == 0.0);
    values.extend(sums.iter().map(|sum| if blank { 1.0 } else { sum / count }));
}

fn of_gguf(file: &Gguf) -> Result<Imatrix, String> {
    let mut entries = HashMap::new();
    for info in file.tensors() {
        let Some(name) = info.name.strip_suffix(SUMS) else { continue };
        let counts = file.tensor(&format!("{name}{COUNTS}"));
        let counts = counts.ok_or_else(|| format!("tensor {name:?} has no {COUNTS}"))?;
        let (sums, counts) = (floats(file, info)?, floats(file, counts)?);
        let columns = info.n_in() as usize;
        if counts.len() * columns != sums.len() {
            let found = (counts.len(), sums.len());
            return Err(format!("tensor {name:?} has {} counts for {} sums", found.0, found.1));
        }
        let mut values = Vec::with_capacity(sums.len());
        for (sums, count) in sums.chunks_exact(columns.max(1)).zip(&counts) {
            push_means(&mut values, sums, *count);
        }
        entries.insert(name.to_owned(), values);
    }
    Ok(Imatrix { entries })
}

fn floats(file: &Gguf, info: &TensorInfo) -> Result<Vec<f32>, String> {
    if info.ty != TensorType::F32 {
        return Err(format!("tensor {:?} is {}, not F32", info.name, info.ty));
    }
    let bytes = file.bytes(info);
    Ok(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect())
}

/// The older form: a count of tensors, and for each the length of its name, the name, the number
/// of calls that were summed up, the number of values, the sums. What follows is not needed.
fn of_dat(bytes: &[u8]) -> Result<Imatrix, String> {
    let mut rest = Rest(bytes);
    let tensors = rest.count("tensors")?;
    let mut entries = HashMap::new();
    for number in 0..tensors {
        let length = rest.count("bytes of a name")?;
        if length > MAX_NAME {
            return Err(format!("the name of tensor {number} has {length} bytes"));
        }
        let name = String::from_utf8_lossy(rest.take(length)?).into_owned();
        let calls = rest.count("calls")?;
        let columns = rest.count("values")?;
        let sums = rest.take(columns.checked_mul(4).ok_or("a count overflows")?)?;
        let sums = sums.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk));
        let mut values = Vec::with_capacity(columns);
        push_means(&mut values, &sums.collect::<Vec<f32>>(), calls.max(1) as f32);
        entries.insert(name, values);
    }
    Ok(Imatrix { entries })
}

/// What is left of a file.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let left = self.0.len();
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes should follow where {left} are left"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn count(&mut self, what: &str) -> Result<usize, String> {
        let bytes = self.take(4)?;
        let number = bytes.first_chunk().map_or(-1, |four| i32::from_le_bytes(*four));
        usize::try_from(number).map_err(|_| format!("the number of {what} is {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf::{Metadata, Writer};

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn read(contents: &[u8]) -> Result<Imatrix, ImatrixError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imatrix");
        fs::write(&path, contents).unwrap();
        Imatrix::read(&path)
    }

    fn dat(entries: &[(&str, i32, &[f32])]) -> Vec<u8> {
        let mut out = (entries.len() as i32).to_le_bytes().to_vec();
        for (name, calls, sums) in entries {
            out.extend((name.len() as i32).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(calls.to_le_bytes());
            out.extend((sums.len() as i32).to_le_bytes());
            out.extend(bytes(sums));
        }
        out.extend([9; 7]);
        out
    }

    #[test]
    fn the_gguf_form_divides_sums_by_counts_per_matrix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imatrix.gguf");
        let mut writer = Writer::new(Metadata::new());
        let sums = bytes(&[2.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
        writer.tensor("w.weight.in_sum2", &[2, 3], TensorType::F32, sums);
        writer.tensor("w.weight.counts", &[1, 3], TensorType::F32, bytes(&[2.0, 0.0, 7.0]));
        writer.write(&path).unwrap();
        let found = Imatrix::read(&path).unwrap();
        let columns = found.columns("w.weight", &[2, 9, 3]).unwrap();
        assert_eq!(columns, Some(&[1.0, 2.0, 1.0, 1.0, 1.0, 1.0][..]));
        assert_eq!(found.columns("v.weight", &[2, 9, 3]).unwrap(), None);
        let other = found.columns("w.weight", &[2, 9]);
        assert!(matches!(other, Err(ImatrixError::Length { found: 6, expected: 2, .. })));
    }

    #[test]
    fn the_older_form_divides_by_calls() {
        let found = read(&dat(&[("a", 4, &[8.0, 4.0]), ("b", 0, &[3.0])])).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found.columns("a", &[2, 5]).unwrap(), Some(&[2.0, 1.0][..]));
        assert_eq!(found.columns("b", &[1]).unwrap(), Some(&[3.0][..]));
    }

    #[test]
    fn files_that_are_none_are_refused() {
        let whole = dat(&[("a", 4, &[8.0, 4.0]), ("b", 0, &[3.0])]);
        for cut in 0..whole.len() - 7 {
            assert!(matches!(read(&whole[..cut]), Err(ImatrixError::Malformed { .. })), "{cut}");
        }
        let mut negative = whole.clone();
        negative[3] = 0x80;
        let huge = [&1i32.to_le_bytes()[..], &i32::MAX.to_le_bytes()].concat();
        let bad = [dat(&[]), dat(&[("a", 1, &[-1.0])]), dat(&[("a", 1, &[f32::NAN])])];
        for contents in bad.into_iter().chain([negative, huge, b"some text".to_vec()]) {
            assert!(matches!(read(&contents), Err(ImatrixError::Malformed { .. })));
        }
    }
}
