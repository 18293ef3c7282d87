//! Reading parts of a file, and noticing when it is no longer the file that was opened.

use crate::StoreError;
use crate::buffer::{BLOCK, Buffer};
use std::fmt::Debug;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// How bytes come from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Straight into our memory, past the system's cache of files, which would only hold everything
    /// twice; through that cache where the file system has no other way.
    Direct,
    /// Through the system's cache of files.
    Cached,
}

/// A file as a source of bytes; tests put faulty ones in its place.
pub trait Disk: Debug + Send + Sync {
    /// Reads up to `buffer.len()` bytes from `offset` on; 0 at the end. Offset, length and address
    /// are multiples of 4096 bytes.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Whether the contents are those that were opened, as far as the system tells.
    ///
    /// # Errors
    /// What the system says.
    fn is_unchanged(&self) -> io::Result<bool>;

    /// The file, for messages.
    fn path(&self) -> &Path;
}

/// A file of the file system.
#[derive(Debug)]
pub struct FileDisk {
    path: PathBuf,
    cached: File,
    /// The same file, opened for reads past the cache.
    direct: Option<File>,
    /// Direct reads were refused once: some file systems open files for them and then refuse.
    refused: AtomicBool,
    identity: Identity,
}

/// What tells that a file was written to.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    len: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl FileDisk {
    /// Opens a file.
    ///
    /// # Errors
    /// [`StoreError::Open`].
    pub fn open(path: &Path, way: Way) -> Result<Self, StoreError> {
        let failed = |source| StoreError::open(path, source);
        let cached = File::open(path).map_err(failed)?;
        let identity = Identity::of(&cached.metadata().map_err(failed)?);
        let direct = match way {
            Way::Direct => open_direct(path),
            Way::Cached => None,
        };
        // The name may stand for another file by now.
        let direct = direct.filter(|file| {
            file.metadata().is_ok_and(|metadata| Identity::of(&metadata) == identity)
        });
        let refused = AtomicBool::new(false);
        Ok(Self { path: path.to_owned(), cached, direct, refused, identity })
    }

    /// How bytes come from it.
    pub fn way(&self) -> Way {
        match self.direct {
            Some(_) if !self.refused.load(Ordering::Relaxed) => Way::Direct,
            _ => Way::Cached,
        }
    }
}

impl Disk for FileDisk {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let (Some(file), Way::Direct) = (&self.direct, self.way()) {
            match read_at(file, buffer, offset) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.refused.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        read_at(&self.cached, buffer, offset)
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(Identity::of(&self.cached.metadata()?) == self.identity)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Elsewhere files are read through the system's cache.
#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Reads `bytes` bytes from `offset` on. Returns where they lie in `buffer`, which was made for as
/// many.
///
/// # Errors
/// When the disk fails, the file ends too early, or is no longer the one that was opened.
pub(crate) fn read_part(
    disk: &dyn Disk,
    (offset, bytes): (u64, usize),
    buffer: &mut Buffer,
) -> Result<Range<usize>, StoreError> {
    let failed = |source| StoreError::read(disk.path(), (offset, bytes), source);
    let skip = (offset % BLOCK as u64) as usize;
    let (first, end) = (offset - skip as u64, skip + bytes);
    let start = buffer.start();
    let memory = &mut buffer.blocks_mut()[..end.next_multiple_of(BLOCK)];
    let mut done = 0;
    while done < end {
        // A read may end inside a block; the next one begins with that block again.
        let whole = done / BLOCK * BLOCK;
        match disk.read_at(&mut memory[whole..], first + whole as u64) {
            Ok(count) if whole + count > done => done = whole + count,
            Ok(_) => {
                let end = offset + bytes as u64;
                return Err(StoreError::Short { path: disk.path().to_owned(), end });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match disk.is_unchanged() {
        Ok(true) => Ok(start + skip..start + end),
        Ok(false) => Err(StoreError::Changed { path: disk.path().to_owned() }),
        Err(error) => Err(failed(error)),
    }
}
