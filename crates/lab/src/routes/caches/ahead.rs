//! Reading what the next layer is likely to want.

use super::pool::Pool;
use super::trace::Step;
use super::{Cache, Reads};

/// What goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// Read for nothing, and not wanted since.
    Wrong,
    /// Wanted, or about to be.
    Wanted,
}

/// Least recently used goes first, but before it what was read ahead for nothing. Neither what the
/// running layer wants nor what is forecast for the next is evicted to read ahead.
pub(super) struct Ahead {
    pool: Pool<(Worth, u64)>,
    clock: u64,
    forecast: usize,
    count: usize,
    /// What was read for the coming step.
    fetched: Vec<u32>,
}

impl Ahead {
    pub(super) fn new(slots: usize, forecast: usize, count: usize) -> Self {
        let pool = Pool::new(slots);
        Self { pool, clock: 0, forecast, count, fetched: Vec::new() }
    }

    /// Now, as the key of an expert.
    fn now(&mut self) -> (Worth, u64) {
        self.clock += 1;
        (Worth::Wanted, self.clock)
    }

    /// Tells right from wrong among what was read for this step; returns how many are wrong.
    fn judge(&mut self, step: &Step) -> usize {
        let mut fetched = std::mem::take(&mut self.fetched);
        fetched.retain(|expert| !step.wanted.contains(expert));
        for &expert in &fetched {
            if let Some((_, time)) = self.pool.take(expert) {
                self.pool.put(expert, (Worth::Wrong, time));
            }
        }
        fetched.len()
    }

    /// Reads for the next step, as long as there are slots for it; returns how many.
    fn fetch(&mut self, step: &Step) -> usize {
        let likely = step.forecast[self.forecast].iter();
        let likely: Vec<u32> =
            likely.filter(|ranked| ranked.rank < self.count).map(|ranked| ranked.expert).collect();
        let mut kept = Vec::new();
        for &expert in step.wanted.iter().chain(&likely) {
            kept.extend(self.pool.take(expert).map(|key| (expert, key)));
        }
        let held: Vec<u32> = kept.iter().map(|&(expert, _)| expert).collect();
        for &expert in likely.iter().filter(|expert| !held.contains(expert)) {
            if self.pool.free(kept.len()) == 0 && !self.pool.evict() {
                break;
            }
            self.fetched.push(expert);
            kept.push((expert, self.now()));
        }
        kept.into_iter().for_each(|(expert, key)| self.pool.put(expert, key));
        self.fetched.len()
    }
}

impl Cache for Ahead {
    fn step(&mut self, _: usize, step: &Step) -> Reads {
        let wrong = self.judge(step);
        let missed = self.pool.serve(&step.wanted, |_| {
            self.clock += 1;
            (Worth::Wanted, self.clock)
        });
        Reads { missed, prefetched: self.fetch(step), wrong }
    }
}
