//! Writing a model: as one file, or split over several.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::TensorType;
use crate::blueprint;
use crate::encode;
use crate::error::Error;
use crate::fault::Fault;
use crate::metadata::Metadata;
use crate::reader::{self, ALIGNMENT_KEY};
use crate::split::{self, COUNT_KEY, NO_KEY, TOTAL_KEY};
use crate::temp::TempFile;
use crate::tensor::{self, TensorInfo};

const BUFFER_BYTES: usize = 1 << 20;

type Producer<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// Where the bytes of a tensor come from.
pub enum Source<'a> {
    /// Bytes in memory.
    Bytes(Cow<'a, [u8]>),
    /// A function that writes the bytes when their turn comes, so that no more than one
    /// tensor's worth need exist at a time.
    Stream(Producer<'a>),
}

impl<'a> Source<'a> {
    /// A source that produces its bytes when they are needed.
    pub fn stream(produce: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'a) -> Source<'a> {
        Source::Stream(Box::new(produce))
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Source<'a> {
        Source::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Source<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Source::Bytes(Cow::Owned(bytes))
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Source::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Where a split model starts a new part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitLimit {
    /// At most this many tensors in a part; 0 counts as 1.
    Tensors(usize),
    /// At most this many bytes of tensor data in a part. A larger tensor gets its own part.
    Bytes(u64),
}

/// A model to be written, version 3.
///
/// The alignment is `general.alignment` of the metadata, or 32. The three `split.` keys of the
/// format are left out and, for a split model, set anew. Files are written under another name
/// beside the target and renamed when complete; an existing file is replaced.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    metadata: Metadata,
    tensors: Vec<Pending<'a>>,
}

#[derive(Debug)]
struct Pending<'a> {
    name: String,
    dims: Vec<u64>,
    ty: TensorType,
    source: Source<'a>,
}

/// One file about to be written.
struct Part<'a> {
    path: PathBuf,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    sources: Vec<Source<'a>>,
}

impl<'a> Writer<'a> {
    /// Starts a model with its metadata.
    pub fn new(metadata: Metadata) -> Writer<'a> {
        Writer { metadata, tensors: Vec::new() }
    }

    /// Adds a tensor after the others. `dims` are in ggml order, the row length first. Name,
    /// shape and amount of data are checked when the model is written.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dims: &[u64],
        ty: TensorType,
        source: impl Into<Source<'a>>,
    ) -> &mut Self {
        let (name, dims, source) = (name.into(), dims.to_vec(), source.into());
        self.tensors.push(Pending { name, dims, ty, source });
        self
    }

    /// Writes one file.
    ///
    /// # Errors
    /// [`Error::Malformed`] for names and shapes that the reader would refuse,
    /// [`Error::DataLength`] for a source of the wrong length, [`Error::Io`]. No file is left
    /// behind then, and an existing one is untouched.
    pub fn write(self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let (metadata, tensors, sources) = self.checked(path)?;
        let path = path.to_owned();
        let part = Part { path, metadata, tensors, sources };
        part.write()?.commit()
    }

    /// Writes `PREFIX-00001-of-0000N.gguf` and so on, and returns the paths. The first part
    /// carries the metadata, all carry the split keys (and the alignment, unless it is 32).
    ///
    /// # Errors
    /// As [`Writer::write`], and [`Error::TooManyParts`].
    pub fn write_split(
        self,
        prefix: impl AsRef<Path>,
        limit: SplitLimit,
    ) -> Result<Vec<PathBuf>, Error> {
        let prefix = prefix.as_ref();
        let parts = self.into_parts(prefix, limit)?;
        let paths = parts.iter().map(|part| part.path.clone()).collect();
        let files = parts.into_iter().map(Part::write).collect::<Result<Vec<TempFile>, _>>()?;
        // The first part gets its name last: with it the set can be opened.
        for file in files.into_iter().rev() {
            file.commit()?;
        }
        Ok(paths)
    }

    /// Applies the reader's rules to everything but the data.
    fn checked(
        mut self,
        path: &Path,
    ) -> Result<(Metadata, Vec<TensorInfo>, Vec<Source<'a>>), Error> {
        for key in [NO_KEY, COUNT_KEY, TOTAL_KEY] {
            self.metadata.remove(key);
        }
        let check = || {
            blueprint::check_keys(&self.metadata)?;
            reader::alignment(&self.metadata)?;
            let mut tensors = Vec::with_capacity(self.tensors.len());
            for (index, Pending { name, dims, ty, .. }) in (0..).zip(&self.tensors) {
                tensor::check_name(index, 0, name)?;
                tensors.push(TensorInfo::new(name, dims, *ty)?);
            }
            tensor::check_unique(&tensors)?;
            Ok(tensors)
        };
        let tensors = check().map_err(|fault: Fault| Error::malformed(path, fault))?;
        let sources = self.tensors.into_iter().map(|pending| pending.source).collect();
        Ok((self.metadata, tensors, sources))
    }

    fn into_parts(self, prefix: &Path, limit: SplitLimit) -> Result<Vec<Part<'a>>, Error> {
        let (mut metadata, tensors, sources) = self.checked(prefix)?;
        let alignment = metadata.get(ALIGNMENT_KEY).cloned();
        let lengths = part_lengths(&tensors, limit);
        let parts = lengths.len();
        let Ok(count) = u16::try_from(parts) else {
            return Err(Error::TooManyParts { prefix: prefix.to_owned(), parts });
        };
        let total = tensors.len();
        let (mut tensors, mut sources) = (tensors.into_iter(), sources.into_iter());
        let stem = prefix.file_name().unwrap_or(OsStr::new(""));
        Ok((0..count)
            .zip(lengths)
            .map(|(no, length)| {
                let mut metadata = std::mem::take(&mut metadata);
                if let Some(alignment) = &alignment {
                    metadata.insert(ALIGNMENT_KEY, alignment.clone());
                }
                metadata.insert(NO_KEY, no);
                metadata.insert(COUNT_KEY, count);
                // The format's own type; more tensors than it can count do not fit in memory.
                metadata.insert(TOTAL_KEY, i32::try_from(total).unwrap_or(i32::MAX));
                let name = split::file_name(stem, u32::from(no) + 1, u32::from(count));
                Part {
                    path: prefix.with_file_name(name),
                    metadata,
                    tensors: tensors.by_ref().take(length).collect(),
                    sources: sources.by_ref().take(length).collect(),
                }
            })
            .collect())
    }
}

/// The number of tensors in each part; at least one part.
fn part_lengths(tensors: &[TensorInfo], limit: SplitLimit) -> Vec<usize> {
    let mut lengths = Vec::new();
    let (mut length, mut bytes) = (0, 0u64);
    for tensor in tensors {
        let full = match limit {
            SplitLimit::Tensors(most) => length >= most,
            SplitLimit::Bytes(most) => bytes.saturating_add(tensor.bytes) > most,
        };
        if full && length > 0 {
            lengths.push(length);
            (length, bytes) = (0, 0);
        }
        length += 1;
        bytes = bytes.saturating_add(tensor.bytes);
    }
    lengths.push(length);
    lengths
}

impl Part<'_> {
    /// Writes the file under a temporary name.
    fn write(mut self) -> Result<TempFile, Error> {
        let fault = |fault| Error::malformed(&self.path, fault);
        let alignment = reader::alignment(&self.metadata).map_err(fault)?;
        blueprint::place(&mut self.tensors, u64::from(alignment)).map_err(fault)?;
        let header = encode::header(&self.metadata, &self.tensors, alignment);
        let (temp, file) = TempFile::create(&self.path)?;
        let failed = |source| Error::io(&self.path, "write", source);
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        out.write_all(&header).map_err(failed)?;
        for (tensor, source) in self.tensors.iter().zip(self.sources) {
            write_tensor(&self.path, tensor, source, &mut out)?;
            let padding = padding(tensor.bytes, u64::from(alignment));
            io::copy(&mut io::repeat(0).take(padding), &mut out).map_err(failed)?;
        }
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(temp)
    }
}

fn padding(bytes: u64, alignment: u64) -> u64 {
    bytes.wrapping_neg() % alignment
}

fn write_tensor(
    path: &Path,
    tensor: &TensorInfo,
    source: Source<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut sink = Sink { out, expected: tensor.bytes, given: 0 };
    let result = match source {
        Source::Bytes(bytes) => sink.write_all(&bytes),
        Source::Stream(produce) => produce(&mut sink),
    };
    let Sink { given, expected, .. } = sink;
    if given > expected || (result.is_ok() && given < expected) {
        let (path, tensor) = (path.to_owned(), tensor.name.clone());
        return Err(Error::DataLength { path, tensor, expected, given });
    }
    result.map_err(|source| Error::io(path, "write", source))
}

/// Counts the bytes of a tensor and stops at the first too many.
struct Sink<'a> {
    out: &'a mut dyn Write,
    expected: u64,
    given: u64,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.expected.saturating_sub(self.given) {
            self.given = self.given.saturating_add(bytes.len() as u64);
            return Err(io::Error::other("more bytes than the tensor has"));
        }
        let written = self.out.write(bytes)?;
        self.given += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
