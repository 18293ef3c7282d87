//! One conversation on disk, held by one program at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::name::Name;
use super::record::{BadRecord, Record};
use crate::error::Error;

/// A conversation's text is far smaller; a file that is larger is none.
const MAX_BYTES: u64 = 256 << 20;

/// A place for a conversation. While it lives, no other program can open it.
#[derive(Debug)]
pub(crate) struct Store {
    name: Name,
    path: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Opens the place of the conversation `name` in `folder`. Where nothing can be written there
    /// is a warning, and nothing to hold.
    ///
    /// # Errors
    /// [`Error::Refused`] if another program holds it.
    pub(crate) fn open(folder: &Path, name: &Name) -> Result<Store, Error> {
        let path = folder.join(format!("{name}.json"));
        let lock = match lock(folder, name) {
            Ok(lock) => Some(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Refused(format!(
                    "the conversation {name:?} is open in another tuff; leave it there, or use \
                     another name",
                    name = name.as_str()
                )));
            }
            Err(TryLockError::Error(error)) => {
                let folder = folder.display();
                tracing::warn!("cannot lock the conversation {name} in {folder}: {error}");
                None
            }
        };
        Ok(Store { name: name.clone(), path, _lock: lock })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Whether there is a file.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// What was saved, if anything was. A file that is not whole is kept under another name, as it
    /// may hold what somebody wrote.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read or not be put aside; [`Error::Unusable`] if a later
    /// program wrote it.
    pub(crate) fn load(&self) -> Result<Option<Record>, Error> {
        let Some(bytes) = read(&self.path).map_err(Error::file("read", &self.path))? else {
            return Ok(None);
        };
        match Record::from_bytes(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(reason @ BadRecord::Newer(_)) => {
                Err(Error::Unusable { path: self.path.clone(), reason: reason.to_string() })
            }
            Err(reason) => {
                let aside = self.put_aside().map_err(Error::file("put aside", &self.path))?;
                let (path, aside) = (self.path.display(), aside.display());
                tracing::warn!("{path} ignored: {reason}; it is kept as {aside}");
                Ok(None)
            }
        }
    }

    /// Writes everything under another name and gives it its own when all of it is on the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn save(&self, record: &Record) -> io::Result<()> {
        let unfinished = self.path.with_extension("json.tmp");
        let mut file = File::create(&unfinished)?;
        file.write_all(&record.to_bytes()?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        sync_folder(&self.path)
    }

    /// Removes it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let _ = fs::remove_file(self.path.with_extension("json.tmp"));
        let removed = fs::remove_file(&self.path).and_then(|()| sync_folder(&self.path));
        removed.map_err(Error::file("delete", &self.path))
    }

    /// Gives its file a name that no other has.
    fn put_aside(&self) -> io::Result<PathBuf> {
        let name = |number: usize| match number {
            1 => self.path.with_extension("json.damaged"),
            _ => self.path.with_extension(format!("json.damaged-{number}")),
        };
        let free = (1..).map(name).find(|path| !path.exists());
        let free = free.ok_or(io::ErrorKind::AlreadyExists)?;
        fs::rename(&self.path, &free)?;
        Ok(free)
    }
}

/// The bytes of a file, if there is one.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Lock files stay: one that is removed could be held by two.
fn lock(folder: &Path, name: &Name) -> Result<File, TryLockError> {
    let folder = folder.join("locks");
    let open = || {
        make_private(&folder)?;
        // Windows locks nothing that is open for appending only.
        let mut options = File::options();
        options.read(true).append(true).create(true).open(folder.join(format!("{name}.lock")))
    };
    let file = open().map_err(TryLockError::Error)?;
    file.try_lock().map(|()| file)
}

/// Makes a folder and those above it as far as they are missing, which others cannot look into.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Makes a new name last. Only Unix lets a folder be opened for it.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
