//! An opened model: one file, or all parts of a split set.

use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::bytes::Bytes;
use crate::error::{Error, Origin, SplitFault};
use crate::folder;
use crate::map;
use crate::metadata::Metadata;
use crate::reader::{self, Header};
use crate::split::{self, PartName, SplitKeys, TOTAL_KEY};
use crate::tensor::{self, TensorInfo};

/// How file contents get into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Map the files: opening is fast, pages are read when touched and can be dropped again.
    /// While mapped, a file must not be changed or truncated by others; reading a page past a
    /// new end kills the process (SIGBUS), which no check here can prevent.
    #[default]
    Map,
    /// Read all files into memory at open: slow and as large as the files, but independent of
    /// what happens to them afterwards.
    Read,
}

/// How to open a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// How file contents get into memory.
    pub read: ReadMode,
}

/// An opened model. Cloning copies a handle.
#[derive(Clone)]
pub struct Gguf {
    model: Arc<Model>,
}

#[derive(Default)]
struct Model {
    version: u32,
    tensors: Vec<TensorInfo>,
    /// Indices of `tensors`, sorted by name.
    by_name: Vec<usize>,
    paths: Vec<PathBuf>,
    contents: Vec<Contents>,
}

/// Bytes of a model that stay in memory as long as this lives.
pub struct Locked {
    model: Arc<Model>,
    /// Part, and bytes of its file.
    ranges: Vec<(usize, Range<usize>)>,
}

impl Locked {
    /// How many.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(_, range)| range.len() as u64).sum()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for (part, range) in &self.ranges {
            map::unlock(&self.model.contents[*part].map, range.clone());
        }
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// The bytes of one part.
struct Contents {
    metadata: Metadata,
    map: Arc<Mmap>,
    read: ReadMode,
    data_start: u64,
    alignment: u64,
}

/// One file, read and checked by itself.
struct Part {
    path: PathBuf,
    map: Mmap,
    read: ReadMode,
    header: Header,
}

impl Gguf {
    /// Opens a model by mapping its files. The path is a file, any part of a split model (the
    /// other parts are found beside it), or a folder that holds exactly one model.
    ///
    /// # Errors
    /// Whatever is wrong with the files, before any tensor data is touched; see [`Error`].
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::open_with(path, OpenOptions::default())
    }

    /// Opens a model as [`Gguf::open`] does, with options.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Gguf, Error> {
        let path = path.as_ref();
        let found = fs::metadata(path).map_err(|source| Error::io(path, "open", source))?;
        if found.is_dir() {
            return open_file(&folder::find_model(path)?, options.read);
        }
        open_file(path, options.read)
    }

    /// Opens a model that is one file, from a copy of its bytes.
    ///
    /// # Errors
    /// As [`Gguf::open`], and for a part of a split model, whose other parts cannot be found.
    pub fn from_bytes(bytes: &[u8]) -> Result<Gguf, Error> {
        let path = PathBuf::from("(memory)");
        let header = parse(&path, bytes)?;
        if let Some(SplitKeys { count, .. }) = SplitKeys::read(&path, &header.metadata)? {
            return Err(Error::split(&path, SplitFault::InMemory { count }));
        }
        let map = map::copy(bytes).map_err(|source| Error::io(&path, "copy", source))?;
        assemble(vec![Part { path, map, read: ReadMode::Read, header }])
    }

    /// The format version of the (first) file: 2 or 3.
    pub fn version(&self) -> u32 {
        self.model.version
    }

    /// The model's metadata: of a split model, that of the first part.
    pub fn metadata(&self) -> &Metadata {
        self.part_metadata(0)
    }

    /// What the file `parts()[part]` says about itself; the later parts of a split model hold
    /// little more than their split keys.
    ///
    /// # Panics
    /// If the model has no such part; every model has part 0.
    pub fn part_metadata(&self, part: usize) -> &Metadata {
        &self.model.contents[part].metadata
    }

    /// All tensors of all parts, in order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.model.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let Model { tensors, by_name, .. } = &*self.model;
        let place = by_name.binary_search_by(|&i| tensors[i].name.as_str().cmp(name)).ok()?;
        Some(&tensors[by_name[place]])
    }

    /// The bytes of a tensor of this model. They start at a multiple of the size of the tensor's
    /// elements for the plain types; the fields of blocks can be at any byte.
    ///
    /// # Panics
    /// If the description is not one of this model's, and its place is not inside the files.
    pub fn bytes(&self, tensor: &TensorInfo) -> Bytes {
        let contents = &self.model.contents[tensor.part];
        let start = self.file_offset(tensor) as usize;
        Bytes::new(contents.map.clone(), start..start + tensor.bytes as usize)
    }

    /// The first byte of a tensor of this model, counted from the start of its file
    /// `parts()[tensor.part]`: for readers that fetch tensor data by other means than the map.
    ///
    /// # Panics
    /// If the description names a part that this model does not have.
    pub fn file_offset(&self, tensor: &TensorInfo) -> u64 {
        self.model.contents[tensor.part].data_start + tensor.offset
    }

    /// Keeps the bytes of some tensors in memory for as long as the result lives, where the system
    /// allows it: other programs' needs no longer drive them out. Reads them all.
    ///
    /// # Errors
    /// When the system does not, most often because of its limit for locked memory (`ulimit -l`).
    ///
    /// # Panics
    /// If a description names a part that this model does not have.
    pub fn lock<'a>(
        &self,
        tensors: impl IntoIterator<Item = &'a TensorInfo>,
    ) -> Result<Locked, Error> {
        let mut ranges: Vec<(usize, usize, usize)> = tensors
            .into_iter()
            .map(|tensor| {
                let start = self.file_offset(tensor) as usize;
                (tensor.part, start, start + tensor.bytes as usize)
            })
            .collect();
        ranges.sort_unstable();
        let mut locked = Locked { model: self.model.clone(), ranges: Vec::new() };
        for (part, start, end) in ranges {
            match locked.ranges.last_mut() {
                // Neighbours make one range, with the padding between them.
                Some((p, range))
                    if *p == part && start <= range.end + self.alignment() as usize =>
                {
                    range.end = range.end.max(end);
                }
                _ => locked.ranges.push((part, start..end)),
            }
        }
        for (part, range) in &locked.ranges {
            let failed = |source| Error::io(&self.model.paths[*part], "keep in memory", source);
            map::lock(&self.model.contents[*part].map, range.clone()).map_err(failed)?;
        }
        Ok(locked)
    }

    /// The model's files: one, or the parts in order.
    pub fn parts(&self) -> &[PathBuf] {
        &self.model.paths
    }

    /// What tensor offsets are multiples of in the (first) file.
    pub fn alignment(&self) -> u64 {
        self.model.contents.first().map_or(1, |contents| contents.alignment)
    }

    /// Lets go of the pages of mapped files that were touched so far: for the time after their
    /// weights were copied elsewhere. What is touched again is read again.
    pub fn release(&self) {
        let mapped = self.model.contents.iter().filter(|part| part.read == ReadMode::Map);
        mapped.for_each(|part| map::release(&part.map));
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.model.contents.iter().map(|contents| contents.map.len() as u64).sum()
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("parts", &self.model.paths)
            .field("metadata", &self.metadata().len())
            .field("tensors", &self.model.tensors.len())
            .finish()
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Header, Error> {
    let mut header = reader::parse(bytes).map_err(|fault| Error::malformed(path, fault))?;
    header.metadata.set_origin(Origin::file(path));
    Ok(header)
}

impl Part {
    fn open(path: &Path, read: ReadMode) -> Result<Part, Error> {
        let failed = |action| move |source| Error::io(path, action, source);
        // Looked at before opening, which would wait for ever on a named pipe.
        if !fs::metadata(path).map_err(failed("open"))?.is_file() {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(failed("open"))?;
        let file_bytes = file.metadata().map_err(failed("read"))?.len();
        if file_bytes == 0 {
            parse(path, &[])?; // Nothing to map: only an error can result.
        }
        let Ok(len) = usize::try_from(file_bytes) else {
            let source = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            return Err(Error::io(path, "map", source));
        };
        let map = match read {
            ReadMode::Map => map::map(&file, len).map_err(failed("map"))?,
            ReadMode::Read => map::read(&file, len).map_err(failed("read"))?,
        };
        let header = parse(path, &map)?;
        Ok(Part { path: path.to_owned(), map, read, header })
    }

    fn split_keys(&self) -> Result<Option<SplitKeys>, Error> {
        SplitKeys::read(&self.path, &self.header.metadata)
    }
}

fn open_file(path: &Path, read: ReadMode) -> Result<Gguf, Error> {
    let part = Part::open(path, read)?;
    match part.split_keys()? {
        None => assemble(vec![part]),
        Some(keys) => open_parts(part, &keys, read),
    }
}

/// Opens the other parts of a split model and checks that all fit together.
fn open_parts(opened: Part, keys: &SplitKeys, read: ReadMode) -> Result<Gguf, Error> {
    let paths = split::part_paths(&opened.path, keys)?;
    let mut opened = Some(opened);
    let mut parts = Vec::new();
    let mut total = None;
    for (no, path) in paths.iter().enumerate() {
        let part = match opened.take_if(|_| no == usize::from(keys.no)) {
            Some(part) => part,
            None => Part::open(path, read)?,
        };
        let found = part_total(&part, path)?;
        total = match (total, found) {
            (Some(first), Some(found)) if found != first => {
                return Err(Error::split(path, SplitFault::TotalDiffers { first, found }));
            }
            (None, None) => {
                return Err(Error::split(path, SplitFault::MissingKey { key: TOTAL_KEY }));
            }
            (first, found) => first.or(found),
        };
        parts.push(part);
    }
    let found = parts.iter().map(|part| part.header.tensors.len() as u64).sum();
    if let Some(expected) = total.filter(|&total| total != found) {
        return Err(Error::split(&paths[0], SplitFault::Total { expected, found }));
    }
    assemble(parts)
}

/// Checks number and count of a part against its name; returns the total that it tells.
fn part_total(part: &Part, path: &Path) -> Result<Option<u64>, Error> {
    let Some(keys) = part.split_keys()? else {
        let key = split::COUNT_KEY;
        return Err(Error::split(path, SplitFault::MissingKey { key }));
    };
    if let Some(name) = path.file_name().and_then(PartName::parse) {
        keys.check_name(path, &name)?;
    }
    Ok(keys.total)
}

/// Joins the parts to a model. Names must be unique over all of them.
fn assemble(parts: Vec<Part>) -> Result<Gguf, Error> {
    let mut model = Model::default();
    for (index, Part { path, map, read, header }) in parts.into_iter().enumerate() {
        let Header { version, metadata, tensors, by_name, section } = header;
        if index == 0 {
            (model.version, model.by_name) = (version, by_name);
        }
        let of_part = tensors.into_iter().map(|tensor| TensorInfo { part: index, ..tensor });
        model.tensors.extend(of_part);
        model.paths.push(path);
        let (data_start, alignment) = (section.start, section.alignment);
        let map = Arc::new(map);
        model.contents.push(Contents { metadata, map, read, data_start, alignment });
    }
    if model.paths.len() > 1 {
        model.by_name = tensor::name_order(&model.tensors);
    }
    if let Some((first, second)) = tensor::duplicate(&model.tensors, &model.by_name) {
        let (first, second) = (&model.tensors[first], &model.tensors[second]);
        let (tensor, other) = (first.name.clone(), model.paths[first.part].clone());
        let path = &model.paths[second.part];
        return Err(Error::split(path, SplitFault::DuplicateTensor { tensor, other }));
    }
    Ok(Gguf { model: Arc::new(model) })
}
