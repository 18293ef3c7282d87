//! File contents as memory: mapped, or read into memory of our own. The only `unsafe` of the
//! crate is here.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

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

/// Lets go of the pages of a map that [`map`] made.
#[cfg(unix)]
pub(crate) fn release(map: &Mmap) {
    // SAFETY: the map is of a file and nobody writes to it, so a page that is touched again has the
    // bytes that it had. There is nothing to do about an error: the pages stay.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

#[cfg(not(unix))]
pub(crate) fn release(_: &Mmap) {}

/// Keeps the pages of a range of a map in memory until [`unlock`] or the end of the map.
///
/// # Panics
/// If the range is not inside the map.
#[cfg(unix)]
pub(crate) fn lock(map: &Mmap, range: Range<usize>) -> io::Result<()> {
    let (start, len) = pages(map, range);
    // SAFETY: the pages are those of a part of the map, which is borrowed; that they stay in memory
    // changes no byte.
    unsafe { rustix::mm::mlock(start, len) }?;
    Ok(())
}

/// Lets the system take pages back that [`lock`] kept.
///
/// # Panics
/// If the range is not inside the map.
#[cfg(unix)]
pub(crate) fn unlock(map: &Mmap, range: Range<usize>) {
    let (start, len) = pages(map, range);
    // SAFETY: as for [`lock`]. There is nothing to do about an error: the pages stay.
    let _ = unsafe { rustix::mm::munlock(start, len) };
}

/// The pages that a range of a map lies in.
#[cfg(unix)]
fn pages(map: &Mmap, range: Range<usize>) -> (*mut std::ffi::c_void, usize) {
    let before = range.start % rustix::param::page_size();
    let bytes = &map[range.start - before..range.end];
    (bytes.as_ptr().cast_mut().cast(), bytes.len())
}

#[cfg(not(unix))]
pub(crate) fn lock(_: &Mmap, _: Range<usize>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
pub(crate) fn unlock(_: &Mmap, _: Range<usize>) {}

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
