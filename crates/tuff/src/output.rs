//! Files of results: written under another name and renamed when complete, so that a file of the
//! wanted name is always whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

const BUFFER_BYTES: usize = 1 << 20;

/// A file being written. Dropped before [`OutputFile::finish`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    /// None for what cannot be renamed over: a device or a pipe.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

impl OutputFile {
    /// Starts to write a file of this name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn create(path: &Path) -> Result<OutputFile, Error> {
        // A link is followed, so that it stays and its target is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let special = fs::metadata(&path).is_ok_and(|found| !found.is_file());
        let temporary = (!special).then(|| temporary_path(&path));
        let opened = temporary.as_ref().unwrap_or(&path);
        let file = File::create(opened).map_err(Error::file("write", &path))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(OutputFile { path, temporary, file })
    }

    /// Appends numbers in little-endian order.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn write_f32(&mut self, values: &[f32]) -> Result<(), Error> {
        let written = if cfg!(target_endian = "little") {
            self.file.write_all(bytemuck::cast_slice(values))
        } else {
            values.iter().try_for_each(|value| self.file.write_all(&value.to_le_bytes()))
        };
        written.map_err(Error::file("write", &self.path))
    }

    /// Where bytes can be appended by others.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.file
    }

    /// Appends text.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn write_text(&mut self, text: &str) -> Result<(), Error> {
        self.write_bytes(text.as_bytes())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::file("write", &self.path))
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::file("write", &self.path))?;
        if let Some(temporary) = self.temporary.take() {
            fs::rename(&temporary, &self.path).map_err(Error::file("write", &self.path))?;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A name beside the target; the process id keeps two runs apart.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{}", std::process::id()));
    path.with_file_name(name)
}
