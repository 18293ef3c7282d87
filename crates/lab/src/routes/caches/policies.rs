//! The policies that know only the past.

use super::pool::Pool;
use super::trace::Step;
use super::{Cache, Reads, Trace};
use std::cmp::Reverse;

/// Windows after which the counts of [`super::Policy::Lfu`] are halved.
pub const AGEING: usize = 256;

/// Least recently used goes first.
pub(super) struct Lru {
    pool: Pool<u64>,
    clock: u64,
}

impl Lru {
    pub(super) fn new(slots: usize) -> Self {
        Self { pool: Pool::new(slots), clock: 0 }
    }

    /// Serves these experts; returns how many were missing.
    fn serve(&mut self, wanted: &[u32]) -> usize {
        self.pool.serve(wanted, |_| {
            self.clock += 1;
            self.clock
        })
    }
}

impl Cache for Lru {
    fn step(&mut self, _: usize, step: &Step) -> Reads {
        Reads { missed: self.serve(&step.wanted), ..Reads::default() }
    }
}

/// A pool for each layer; what does not divide evenly goes to the first layers.
pub(super) struct LruPerLayer(Vec<Lru>);

impl LruPerLayer {
    pub(super) fn new(trace: &Trace, slots: usize) -> Self {
        let (each, more) = (slots / trace.layers, slots % trace.layers);
        let pool = |layer| Lru::new(each + usize::from(layer < more));
        Self((0..trace.layers).map(pool).collect())
    }
}

impl Cache for LruPerLayer {
    fn step(&mut self, at: usize, step: &Step) -> Reads {
        self.0[step.layer].step(at, step)
    }
}

/// Least often used goes first. Counts go on for experts that are not held.
pub(super) struct Lfu {
    /// Count, then time.
    pool: Pool<(u32, u64)>,
    counts: Vec<u32>,
    clock: u64,
    windows: usize,
}

impl Lfu {
    pub(super) fn new(trace: &Trace, slots: usize) -> Self {
        let pool = Pool::new(slots);
        Self { pool, counts: vec![0; trace.experts], clock: 0, windows: 0 }
    }

    /// Halves all counts, rounding down.
    fn age(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
        for expert in self.pool.experts().collect::<Vec<_>>() {
            if let Some((_, time)) = self.pool.take(expert) {
                self.pool.put(expert, (self.counts[expert as usize], time));
            }
        }
    }
}

impl Cache for Lfu {
    fn step(&mut self, _: usize, step: &Step) -> Reads {
        if step.layer == 0 {
            self.windows += 1;
            if self.windows.is_multiple_of(AGEING) {
                self.age();
            }
        }
        let missed = self.pool.serve(&step.wanted, |expert| {
            let count = &mut self.counts[expert as usize];
            *count += 1;
            self.clock += 1;
            (*count, self.clock)
        });
        Reads { missed, ..Reads::default() }
    }
}

/// The hottest of the warm-up, and a pool for the others.
pub(super) struct Pinned {
    /// By expert.
    pinned: Vec<bool>,
    others: Lru,
}

impl Pinned {
    /// Slots for what is pinned and for the others. Only what was wanted is pinned.
    pub(super) fn new(trace: &Trace, pinned: usize, others: usize) -> Self {
        let mut counts = vec![0; trace.experts];
        for step in &trace.steps[..trace.warm] {
            step.wanted.iter().for_each(|&expert| counts[expert as usize] += 1);
        }
        let mut hottest: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
        hottest.sort_by_key(|&expert| Reverse(counts[expert]));
        let mut is_pinned = vec![false; trace.experts];
        hottest.iter().take(pinned).for_each(|&expert| is_pinned[expert] = true);
        Self { pinned: is_pinned, others: Lru::new(others) }
    }
}

impl Cache for Pinned {
    fn step(&mut self, _: usize, step: &Step) -> Reads {
        let wanted = step.wanted.iter().copied();
        let others: Vec<u32> = wanted.filter(|&expert| !self.pinned[expert as usize]).collect();
        Reads { missed: self.others.serve(&others), ..Reads::default() }
    }
}
