//! The crate's error: a fault together with the file it is about. Every message is one line.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fault::{Fault, Quoted};
use crate::value::Value;

/// Anything that can go wrong with a model's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as in "cannot ... PATH".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The path is neither a regular file nor a folder.
    #[error("{} is not a regular file", .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// The container is wrong: read as found, or about to be written.
    #[error("{}: {fault}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Box<Fault>,
    },
    /// The files of a split model do not fit together.
    #[error("{}: {fault}", .path.display())]
    Split {
        /// The part at which it was noticed.
        path: PathBuf,
        /// What does not fit.
        fault: Box<SplitFault>,
    },
    /// A folder without a model.
    #[error(
        "no model in folder {}: it holds no .gguf file{}",
        .path.display(),
        besides(.ignored)
    )]
    NoModel {
        /// The folder.
        path: PathBuf,
        /// Files that were passed over because they are additions to a model.
        ignored: Vec<PathBuf>,
    },
    /// A folder with several models.
    #[error(
        "folder {} holds {} models, name one of them: {}",
        .path.display(),
        .candidates.len(),
        list(.candidates)
    )]
    ManyModels {
        /// The folder.
        path: PathBuf,
        /// One file of each model: the first part that is there.
        candidates: Vec<PathBuf>,
    },
    /// A metadata value of another kind than asked for.
    #[error("{origin}: metadata key {} should be {wanted}, it is {found}", Quoted(.key))]
    WrongType {
        /// Where the metadata came from.
        origin: Origin,
        /// The key.
        key: String,
        /// What was asked for.
        wanted: &'static str,
        /// What is there.
        found: String,
    },
    /// A metadata number that does not fit what was asked for.
    #[error("{origin}: metadata key {}: {found} is out of range for {wanted}", Quoted(.key))]
    OutOfRange {
        /// Where the metadata came from.
        origin: Origin,
        /// The key.
        key: String,
        /// What was asked for.
        wanted: &'static str,
        /// What is there.
        found: String,
    },
    /// A source of tensor data gave more or fewer bytes than the tensor has.
    #[error(
        "{}: tensor {} has {expected} bytes, {given} were supplied",
        .path.display(),
        Quoted(.tensor)
    )]
    DataLength {
        /// The file being written.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Bytes by shape and type.
        expected: u64,
        /// Bytes supplied before the source ended or was stopped.
        given: u64,
    },
    /// A split with more parts than its keys can count.
    #[error(
        "{}: {parts} parts are too many, at most 65535 fit; allow more per part",
        .prefix.display()
    )]
    TooManyParts {
        /// The path and prefix of the parts.
        prefix: PathBuf,
        /// The parts that the limit gives.
        parts: usize,
    },
}

/// How the files of a split model fail to fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitFault {
    /// Parts are not there.
    #[error(
        "{} of the model's {count} parts are missing beside it: {}",
        .missing.len(),
        list(.missing)
    )]
    MissingParts {
        /// The files looked for.
        missing: Vec<PathBuf>,
        /// The number of parts of the model.
        count: u16,
    },
    /// The file is a part, but its name does not tell where the others are.
    #[error(
        "the file is part {} of {count} of a split model, but is not named \
         PREFIX-{:05}-of-{count:05}.gguf; give all parts their names back",
        .no + 1, .no + 1
    )]
    Name {
        /// The number of the part, from 0, by its metadata.
        no: u16,
        /// The number of parts by its metadata.
        count: u16,
    },
    /// The number in the metadata is not the number in the name.
    #[error("split.no is {found}, by its name the file should have {expected} (counted from 0)")]
    Number {
        /// The number by the file name, from 0.
        expected: u16,
        /// The number in the metadata.
        found: u16,
    },
    /// The count in the metadata is not the count in the name.
    #[error("split.count is {found}, by its name the file is one of {expected} parts")]
    Count {
        /// The count by the file name.
        expected: u32,
        /// The count in the metadata.
        found: u16,
    },
    /// The part's number is not below the number of parts.
    #[error("split.no is {no}, which is not below split.count {count}")]
    NumberBeyondCount {
        /// The number of the part, from 0.
        no: u16,
        /// The number of parts.
        count: u16,
    },
    /// A key that every part needs is absent.
    #[error("the part of a split model lacks the metadata key {key}")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// Two parts disagree about the total number of tensors.
    #[error("split.tensors.count is {found}, in the first part it is {first}")]
    TotalDiffers {
        /// The total by the first part.
        first: u64,
        /// The total by this part.
        found: u64,
    },
    /// The parts do not hold the promised number of tensors.
    #[error(
        "the model should have {expected} tensors (split.tensors.count), its parts hold {found}"
    )]
    Total {
        /// The total by the metadata.
        expected: u64,
        /// The tensors found in all parts.
        found: u64,
    },
    /// A tensor is in two parts.
    #[error("tensor {} is also in {}", Quoted(.tensor), .other.display())]
    DuplicateTensor {
        /// The tensor's name.
        tensor: String,
        /// The earlier part that holds it.
        other: PathBuf,
    },
    /// A part of a split model was opened from memory.
    #[error("the bytes are one of {count} parts of a split model; open it from its files")]
    InMemory {
        /// The number of parts.
        count: u16,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn malformed(path: &Path, fault: Fault) -> Error {
        Error::Malformed { path: path.to_owned(), fault: Box::new(fault) }
    }

    pub(crate) fn split(path: &Path, fault: SplitFault) -> Error {
        Error::Split { path: path.to_owned(), fault: Box::new(fault) }
    }

    pub(crate) fn wrong_type(
        origin: &Origin,
        key: &str,
        wanted: &'static str,
        found: &Value,
    ) -> Error {
        let (origin, key, found) = (origin.clone(), key.to_owned(), found.describe());
        Error::WrongType { origin, key, wanted, found }
    }
}

/// Where metadata came from, for messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin(Option<Arc<Path>>);

impl Origin {
    pub(crate) fn file(path: &Path) -> Origin {
        Origin(Some(path.into()))
    }

    /// The file, unless the metadata was built in memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str("new metadata"),
        }
    }
}

/// File names only, the first eight of them: the folder is named already.
fn list(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 8;
    let name = |path: &PathBuf| match path.file_name() {
        Some(name) => name.display().to_string(),
        None => path.display().to_string(),
    };
    let mut text = paths.iter().take(SHOWN).map(name).collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text.push_str(&format!(" and {} more", paths.len() - SHOWN));
    }
    text
}

fn besides(ignored: &[PathBuf]) -> String {
    if ignored.is_empty() { String::new() } else { format!(" besides {}", list(ignored)) }
}
