//! What can go wrong between a file and a slot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A weight that could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// The system fails to read a part of a file.
    #[error(
        "{}: reading {bytes} bytes at {offset} failed: {source}; check the disk, then ask again",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the part begins.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// A file ends before the part that was to be read.
    #[error(
        "{} ends before byte {end}, where a weight of the model does: it was cut short while in use; \
         restore it and start again",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Where the part ends.
        end: u64,
    },
    /// Somebody wrote to a file while it is in use.
    #[error(
        "{} was changed while in use, and its weights cannot be trusted; start again",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A layout that points nowhere.
    #[error("a weight's place in the files cannot be: {what}")]
    Layout {
        /// What is wrong with it.
        what: String,
    },
    /// There is no room for even one expert.
    #[error(
        "{have} bytes for experts are too few: layers with the largest need {need} for the {used} that \
         a token uses"
    )]
    TooSmall {
        /// Bytes that were given.
        have: u64,
        /// Bytes of the smallest cache that can work.
        need: u64,
        /// Experts of a token.
        used: usize,
    },
    /// The reading threads cannot be started.
    #[error("cannot start threads that read weights: {source}")]
    Threads {
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// A file of hot experts that cannot be used.
    #[error("{}: {what}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl StoreError {
    pub(crate) fn open(path: &Path, source: io::Error) -> Self {
        Self::Open { path: path.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn read(path: &Path, (offset, bytes): (u64, usize), source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), offset, bytes, source: Arc::new(source) }
    }
}

impl From<StoreError> for kernels::Error {
    fn from(error: StoreError) -> Self {
        Self::Storage { why: error.to_string() }
    }
}
