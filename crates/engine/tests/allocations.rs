//! A window allocates nothing once one of its kind has been there.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]
#![allow(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Feed, Want};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, counting.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.realloc(piece, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_window_allocates_nothing_after_the_first_of_its_kind() {
    for model in MODELS {
        // One thread: which worker meets which task first is chance, and each has its own scratch.
        let mut engine = engine_on(cpu(1, Isa::detect()), model, config(1, 64));
        let tokens = prompt(model, "long");
        let mut logits = Vec::new();
        let mut counts = Vec::new();
        for _ in 0..2 {
            engine.reset(0).unwrap();
            let (prompt, rest) = tokens.split_at(40);
            let windows = std::iter::once(prompt).chain(rest.chunks(3));
            for window in windows {
                let feed = [Feed::new(0, window, Want::All)];
                let before = COUNT.load(Ordering::Relaxed);
                engine.forward_into(&feed, &mut logits).unwrap();
                counts.push(COUNT.load(Ordering::Relaxed) - before);
            }
        }
        // The first window after a reset makes room for the caches again.
        let second = &counts[counts.len() / 2 + 1..];
        assert!(second.iter().all(|&n| n == 0), "{model}: {counts:?}");
    }
}
