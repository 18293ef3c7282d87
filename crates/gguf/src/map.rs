//! File contents as memory: mapped, or read into memory of our own. The only `unsafe` of the
//! crate is here.

use std::fs::File;
use std::io::{self, Read};

use memmap2::{Mmap, MmapMut, MmapOptions};

/// Maps the first `len` bytes of a file. Pages are read when they are touched.
pub(crate) fn map(file: &File, len: usize) -> io::Result<Mmap> {
    // SAFETY: the map is private to this crate, read-only, and only ever seen as `&[u8]`, for
    // which every bit pattern is valid. What the type system cannot exclude is that another
    // process changes or truncates the file while it is mapped: bytes may then change, and a
    // page past the new end raises SIGBUS. That limit is documented at `ReadMode::Map`, and
    // `ReadMode::Read` avoids it.
    unsafe { MmapOptions::new().len(len).map(file) }
}

/// Maps a range of a file a second time and keeps its pages in memory while the map lives. Both maps
/// share the pages of the system's cache, so what is read through the first is there too.
#[cfg(unix)]
pub(crate) fn lock(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: as for [`map`]; this one is never read at all.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file) }?;
    map.lock()?;
    Ok(map)
}

#[cfg(not(unix))]
pub(crate) fn lock(_: &File, _: u64, _: usize) -> io::Result<Mmap> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads the first `len` bytes of a file into page-aligned memory.
pub(crate) fn read(mut file: &File, len: usize) -> io::Result<Mmap> {
    let mut memory = MmapMut::map_anon(len)?;
    file.read_exact(&mut memory)?;
    memory.make_read_only()
}

/// Copies bytes into page-aligned memory.
pub(crate) fn copy(bytes: &[u8]) -> io::Result<Mmap> {
    let mut memory = MmapMut::map_anon(bytes.len())?;
    memory.copy_from_slice(bytes);
    memory.make_read_only()
}
