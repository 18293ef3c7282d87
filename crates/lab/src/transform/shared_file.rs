//! A file that several threads read from. Not mapped: what is read and written is hundreds of
//! gigabytes, and memory stays at what the threads hold.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use super::{Error, io_error};

/// An open file.
#[derive(Debug)]
pub(crate) struct SharedFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl SharedFile {
    /// Opens a file for reading.
    pub(crate) fn open(path: &Path) -> Result<SharedFile, Error> {
        let file = File::open(path).map_err(io_error("open", path))?;
        Ok(SharedFile { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Fills `out` with the bytes from `at` on.
    pub(crate) fn read_at(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        // Nothing is left half done by a thread that panics here: every read seeks first.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(out));
        read.map_err(io_error("read", &self.path))
    }

    /// What tells this file from another, or from itself once it is changed: length and time of
    /// the last change.
    pub(crate) fn identity(&self) -> Vec<u8> {
        let Ok(found) = std::fs::metadata(&self.path) else { return Vec::new() };
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = changed.map_or(0, |time| time.as_nanos());
        let (length, time) = (found.len().to_le_bytes(), nanoseconds.to_le_bytes());
        length.into_iter().chain(time).collect()
    }
}
