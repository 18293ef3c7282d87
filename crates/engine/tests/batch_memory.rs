//! A lack of memory is the trouble of the request that needs it, and of no other.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]
#![allow(unsafe_code, reason = "an allocator that refuses")]

mod common;

use common::jobs::*;
use engine::batch::{Job, JobId, Limits, Scheduler};
use engine::cache::StateCache;
use engine::{Error, SamplingParams};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which has no pieces of some sizes.
struct Refusing;

/// Large pieces whose bytes are a multiple of this are refused.
static REFUSED: AtomicUsize = AtomicUsize::new(usize::MAX);

fn refused(size: usize) -> bool {
    size > 20_000 && size.is_multiple_of(REFUSED.load(Ordering::Relaxed))
}

// SAFETY: every call is passed on, or answered as a system without memory does.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: passed on.
        unsafe { System.realloc(piece, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// A context that no buffer but the caches is a multiple of: they come to it behind 256 tokens.
const CONTEXT: usize = 389;

#[test]
fn who_outgrows_the_memory_hurts_no_other() {
    let jobs = sixteen(&sample(1, 8).1);
    let expected = solo(&jobs[1..4]);
    for budget in [0, 64 << 20] {
        let (engine, tokenizer) = sample_of(4, 48, CONTEXT);
        let cache = StateCache::for_states(budget);
        let mut scheduler = Scheduler::new(engine, tokenizer, Limits::default()).with_cache(cache);
        let mut log = Log::default();
        let greedy = SamplingParams::default();
        let long = Job {
            prompt: (0..300).map(|i| 300 + i % 70).collect(),
            max_tokens: Some(5),
            sampling: greedy,
            ..Job::default()
        };
        let large = scheduler.submit(long.clone()).unwrap();
        let ids: Vec<JobId> =
            jobs[1..4].iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
        REFUSED.store(CONTEXT, Ordering::Relaxed);
        log.run(&mut scheduler);
        REFUSED.store(usize::MAX, Ordering::Relaxed);
        let out_of_memory =
            |id| matches!(log.failed[id], Error::Kernel(kernels::Error::OutOfMemory { .. }));
        assert!(log.failed.len() == 1 && out_of_memory(&large), "{:?}", log.failed);
        for (id, expected) in ids.iter().zip(&expected) {
            assert_eq!((&log.done[id].tokens, log.text(*id)), (&expected.0, &expected.1[..]));
        }
        // The slot is as good as before, and so is the text when there is memory again.
        let again = scheduler.submit(long.clone()).unwrap();
        log.run(&mut scheduler);
        assert_eq!(log.done[&again].tokens, solo(&[long]).remove(0).0);
    }
}
