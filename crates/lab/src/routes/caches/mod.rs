//! What a cache of experts would read, by simulation over recorded routes.
//!
//! A model larger than the memory keeps some of its experts there and reads the others when a token
//! wants them. The cache is one pool of slots of one size for the experts of all layers. A window
//! wants the experts of its tokens together, layer after layer; those that the running layer wants
//! are not evicted for each other. What finds no slot even so, or is not to get one, is read beside
//! the cache and dropped.
//!
//! * [`Trace`]: the accesses, in order.
//! * [`Policy`]: what is held; [`simulate`] counts what must be read then.
//! * [`CacheFigures`]: policies and sizes beside each other.

mod ahead;
mod figures;
mod optimal;
mod policies;
mod pool;
#[cfg(test)]
mod tests;
mod trace;

pub use figures::{
    CACHE_SHARES, CACHE_WINDOWS, COLD, CacheFigures, CacheWindow, Cold, PolicyFigures,
};
pub use policies::AGEING;
pub use trace::Trace;

use std::ops::AddAssign;
use trace::Step;

/// Which experts a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those that were wanted last.
    Lru,
    /// Those that were wanted last of each layer; every layer has an equal share of the slots.
    LruPerLayer,
    /// Those that were wanted most often; all counts are halved every [`AGEING`] windows. Of equal
    /// counts, those that were wanted last.
    Lfu,
    /// Those that were wanted most often in the warm-up; nothing is swapped.
    Pinned,
    /// As [`Self::Pinned`] in half of the slots, as [`Self::Lru`] in the others.
    HalfPinned,
    /// Those that will be wanted soonest, of all that were wanted before: none of the above misses
    /// less.
    Optimal,
    /// As [`Self::Lru`]; besides, while a layer runs, the likeliest `count` of the next layer's
    /// experts as `forecast` (a place in [`super::FORECASTS`]) names them for each token. Those
    /// that were read for nothing are the first to go.
    Ahead {
        /// Which forecast.
        forecast: usize,
        /// Experts of a token, 1 up to as many as it uses; more have no effect.
        count: usize,
    },
}

impl Policy {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "LRU",
            Self::LruPerLayer => "LRU of each layer",
            Self::Lfu => "LFU",
            Self::Pinned => "pinned",
            Self::HalfPinned => "half pinned, half LRU",
            Self::Optimal => "optimal",
            Self::Ahead { .. } => "LRU, reading ahead",
        }
    }
}

/// What was wanted and read, in experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens that were computed.
    pub tokens: u64,
    /// Experts wanted: of each window and layer, different ones.
    pub wanted: u64,
    /// Of these not held when they were wanted.
    pub missed: u64,
    /// Read before they were wanted.
    pub prefetched: u64,
    /// Of these not wanted by the layer that they were read for.
    pub wrong: u64,
}

impl Counts {
    /// All experts read.
    pub fn reads(&self) -> u64 {
        self.missed + self.prefetched
    }

    /// Such a number for each token.
    pub fn per_token(&self, experts: u64) -> f64 {
        experts as f64 / self.tokens.max(1) as f64
    }

    /// Such a number as a share of the experts wanted.
    pub fn share(&self, experts: u64) -> f64 {
        experts as f64 / self.wanted.max(1) as f64
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.wanted += other.wanted;
        self.missed += other.missed;
        self.prefetched += other.prefetched;
        self.wrong += other.wrong;
    }
}

/// What one layer of one window had to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    missed: usize,
    prefetched: usize,
    /// Of what was read for this layer before.
    wrong: usize,
}

/// A cache that follows a policy.
trait Cache {
    /// A layer runs: step number `at` of the trace.
    fn step(&mut self, at: usize, step: &Step) -> Reads;
}

/// Runs a cache of `slots` experts, empty at first, over `trace`, and counts what it reads after
/// the warm-up. (One of [`Policy::Optimal`] begins behind the warm-up with the best that it could
/// hold then.)
pub fn simulate(trace: &Trace, policy: Policy, slots: usize) -> Counts {
    let mut cache: Box<dyn Cache> = match policy {
        Policy::Lru => Box::new(policies::Lru::new(slots)),
        Policy::LruPerLayer => Box::new(policies::LruPerLayer::new(trace, slots)),
        Policy::Lfu => Box::new(policies::Lfu::new(trace, slots)),
        Policy::Pinned => Box::new(policies::Pinned::new(trace, slots, 0)),
        Policy::HalfPinned => Box::new(policies::Pinned::new(trace, slots / 2, slots - slots / 2)),
        Policy::Optimal => Box::new(optimal::Optimal::new(trace, slots)),
        Policy::Ahead { forecast, count } => Box::new(ahead::Ahead::new(slots, forecast, count)),
    };
    let mut counts = Counts::default();
    for (at, step) in trace.steps.iter().enumerate() {
        let reads = cache.step(at, step);
        if at >= trace.warm {
            counts += Counts {
                tokens: if step.layer == 0 { step.tokens.len() as u64 } else { 0 },
                wanted: step.wanted.len() as u64,
                missed: reads.missed as u64,
                prefetched: reads.prefetched as u64,
                wrong: reads.wrong as u64,
            };
        }
    }
    counts
}
