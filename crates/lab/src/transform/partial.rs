//! The unfinished files of a run, and the step that gives them their names.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::pieces::Piece;
use super::target::{Part, Target};
use super::{Error, io_error};

const BUFFER_BYTES: usize = 1 << 20;

/// The name of the file that becomes `path`.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    with_suffix(path, ".partial")
}

/// The name of the journal of a target.
pub(crate) fn journal_path(target: &Target) -> PathBuf {
    let first = target.parts.first().map_or(Path::new("model.gguf"), |part| &part.path);
    with_suffix(first, ".journal")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// The unfinished files, open.
#[derive(Debug)]
pub(crate) struct Partials {
    files: Vec<(PathBuf, File)>,
}

impl Partials {
    /// Starts new files, replacing old ones.
    pub(crate) fn create(target: &Target) -> Result<Partials, Error> {
        Partials::open_with(target, |path, part| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true);
            let file = options.open(path).map_err(io_error("write", path))?;
            file.set_len(part.bytes).map_err(io_error("write", path))?;
            Ok(file)
        })
    }

    /// Opens those of an earlier run.
    pub(crate) fn resume(target: &Target) -> Result<Partials, Error> {
        Partials::open_with(target, |path, part| {
            let unfinished = || Error::Unfinished { path: path.to_owned(), expected: part.bytes };
            let opened = OpenOptions::new().read(true).write(true).open(path);
            let file = opened.map_err(|_| unfinished())?;
            let found = file.metadata().map_err(io_error("read", path))?;
            if found.len() == part.bytes { Ok(file) } else { Err(unfinished()) }
        })
    }

    fn open_with(
        target: &Target,
        open: impl Fn(&Path, &Part) -> Result<File, Error>,
    ) -> Result<Partials, Error> {
        let mut files = Vec::with_capacity(target.parts.len());
        for part in &target.parts {
            let path = partial_path(&part.path);
            let file = open(&path, part)?;
            (&file).write_all(&part.header).map_err(io_error("write", &path))?;
            files.push((path, file));
        }
        Ok(Partials { files })
    }

    /// Puts bytes into a part.
    pub(crate) fn write_at(&mut self, part: usize, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let (path, file) = &self.files[part];
        let mut file: &File = file;
        let written = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes));
        written.map_err(io_error("write", path))
    }

    /// The checksum of a piece as it is in the file.
    pub(crate) fn checksum(&self, target: &Target, piece: &Piece) -> Result<u128, Error> {
        let (path, file) = &self.files[target.places[piece.tensor].part];
        let failed = |source| Error::Io { action: "read", path: path.clone(), source };
        let (start, bytes) = piece.span(target);
        let mut file: &File = file;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut rest = file.take(bytes);
        let (mut sum, mut buffer) = (Xxh3::new(), vec![0; BUFFER_BYTES]);
        loop {
            match rest.read(&mut buffer).map_err(failed)? {
                0 => return Ok(sum.digest128()),
                read => sum.update(&buffer[..read]),
            }
        }
    }

    /// Waits until all is on the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let sync =
            |(path, file): &(PathBuf, File)| file.sync_data().map_err(io_error("write", path));
        self.files.iter().try_for_each(sync)
    }
}

/// Gives the files their names, the first part last: with it a split model can be opened. Can be
/// repeated if it was stopped on the way.
pub(crate) fn commit(target: &Target) -> Result<(), Error> {
    for part in target.parts.iter().rev() {
        let partial = partial_path(&part.path);
        let there = fs::metadata(&part.path).is_ok_and(|found| found.len() == part.bytes);
        if !partial.exists() && there {
            continue;
        }
        fs::rename(&partial, &part.path).map_err(io_error("write", &part.path))?;
    }
    // The names are to last, too. Not every system can sync a folder; then they will be soon.
    if let Some(folder) = target.parts.first().map(|part| folder_of(&part.path)) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
