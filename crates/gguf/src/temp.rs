//! A file that appears under its name only when it is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// A new file beside its target. Dropped without [`TempFile::commit`], it is removed.
#[derive(Debug)]
pub struct TempFile {
    /// Empty once the file has its name.
    path: PathBuf,
    target: PathBuf,
}

impl TempFile {
    /// Creates the file. It is to be closed before it is committed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(target: &Path) -> Result<(TempFile, File), Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // A short name of its own: the target's may be as long as the system allows.
            let name = format!(".gguf-{}-{number}.tmp", std::process::id());
            let path = target.with_file_name(name);
            match File::create_new(&path) {
                Ok(file) => return Ok((TempFile { path, target: target.to_owned() }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(target, "create a file beside", error)),
            }
        }
    }

    /// Gives the file its name, replacing an older file of that name.
    ///
    /// # Errors
    /// [`Error::Io`]; the older file stays.
    pub fn commit(mut self) -> Result<(), Error> {
        fs::rename(&self.path, &self.target).map_err(|e| Error::io(&self.target, "write", e))?;
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // Nothing is left to do about a failure: the error that led here is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}
