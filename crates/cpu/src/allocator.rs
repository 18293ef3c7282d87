//! Memory whose larger pieces begin at a cache line.
//!
//! The system's allocator puts a large vector 16 bytes behind a page's start. Then every load of a
//! 64-byte vector, and every other one of a 32-byte vector, touches two cache lines; kernels that
//! stream activations, states and the attention cache lose up to half of their speed.

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes from which a piece is aligned; rows that kernels work on are larger.
const LARGE: usize = 1024;

/// The system's allocator with larger pieces aligned to cache lines. A program that runs kernels
/// uses it as its global allocator; results do not depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineAllocator;

/// What is asked of the system for a layout.
fn widen(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(LINE).unwrap_or(layout) }
}

// SAFETY: every call goes to the system's allocator with a layout that is at least as aligned;
// memory is released with the layout that it was taken with, since `widen` depends on nothing else.
unsafe impl GlobalAlloc for LineAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(widen(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        unsafe { System.alloc_zeroed(widen(layout)) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(piece, widen(layout)) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE || (layout.size() >= LARGE && size >= LARGE) {
            // SAFETY: passed on from the caller; both sizes are of the same kind.
            return unsafe { System.realloc(piece, widen(layout), size) };
        }
        // SAFETY: passed on from the caller, who also promises that the new size with the old
        // alignment makes a layout; the pieces do not overlap, and both have the copied bytes.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                piece.copy_to_nonoverlapping(new, layout.size().min(size));
                self.dealloc(piece, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_keep_their_bytes_as_they_grow_and_shrink() {
        let sizes = [1, 100, 1023, 1024, 5000, 1 << 20, 4096, 900, 64, 2000, 8];
        let mut layout = Layout::from_size_align(1, 4).unwrap();
        // SAFETY: layouts are not empty, and the piece has the layout that is passed along.
        unsafe {
            let mut piece = LineAllocator.alloc_zeroed(layout);
            piece.write(42);
            for size in sizes {
                piece = LineAllocator.realloc(piece, layout, size);
                layout = Layout::from_size_align(size, 4).unwrap();
                assert!(!piece.is_null());
                assert_eq!(piece.read(), 42);
                assert!(size < LARGE || (piece as usize).is_multiple_of(LINE), "{size} bytes");
            }
            LineAllocator.dealloc(piece, layout);
        }
    }
}
