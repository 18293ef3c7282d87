//! The least that any policy reads.
//!
//! Belady's rule: evict what is wanted again the latest. An expert that was read need not be kept
//! at all, so that the bound holds for caches that keep nothing new, too. From an empty cache it is
//! a bound on all reads of one that reads ahead as well: whatever is read before it is wanted might
//! as well be read then. (Behind a warm-up such a cache may hold what nothing wanted yet.)

use super::pool::Pool;
use super::trace::Step;
use super::{Cache, Reads, Trace};
use std::cmp::Reverse;

/// Number of the step that wants an expert next; the latest is evicted first.
type Next = Reverse<usize>;

const NEVER: Next = Reverse(usize::MAX);

pub(super) struct Optimal {
    pool: Pool<Next>,
    /// By step and place in what it wants.
    next: Vec<Vec<Next>>,
    warm: usize,
}

impl Optimal {
    /// Behind the warm-up it holds the best of all that was wanted till then: what is read least
    /// in all may be more behind the warm-up than another cache reads there.
    pub(super) fn new(trace: &Trace, slots: usize) -> Self {
        let mut upcoming = vec![NEVER; trace.experts];
        let mut next = vec![Vec::new(); trace.steps.len()];
        for (at, step) in trace.steps.iter().enumerate().skip(trace.warm).rev() {
            let later =
                |&expert: &u32| std::mem::replace(&mut upcoming[expert as usize], Reverse(at));
            next[at] = step.wanted.iter().map(later).collect();
        }
        let mut pool = Pool::new(slots);
        for &expert in trace.steps[..trace.warm].iter().flat_map(|step| &step.wanted) {
            if !pool.holds(expert) {
                pool.put(expert, upcoming[expert as usize]);
            }
        }
        pool.fit();
        Self { pool, next, warm: trace.warm }
    }
}

impl Cache for Optimal {
    fn step(&mut self, at: usize, step: &Step) -> Reads {
        if at < self.warm {
            return Reads::default();
        }
        let mut missed = 0;
        for (&expert, &next) in step.wanted.iter().zip(&self.next[at]) {
            missed += usize::from(self.pool.take(expert).is_none());
            self.pool.put(expert, next);
        }
        self.pool.fit();
        Reads { missed, ..Reads::default() }
    }
}
