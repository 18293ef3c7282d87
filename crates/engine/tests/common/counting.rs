//! The system's allocator, counting what is held, for tests of how much that is. One test of a file
//! at a time: what one holds must not be counted by another.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Makes it the allocator of a test file.
pub(crate) struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);

static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call is passed on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(piece, layout) }
    }
}

/// Bytes held now.
pub(crate) fn held() -> isize {
    HELD.load(Ordering::Relaxed)
}

/// Keeps the file's other tests waiting.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
