//! Time per call.

use crate::case::Call;
use kernels::{Device, Error};
use std::time::{Duration, Instant};

/// What one call of an operation moves and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// Bytes of weights, or of states where there are no weights, each counted once.
    pub bytes: u64,
    /// Multiplications and additions.
    pub ops: u64,
}

/// How long to measure, and on how much memory.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time to spend on calls; at least three are made.
    pub time: Duration,
    /// The calls take turns over at least as many bytes of weights, so that those of a call have
    /// left the caches when it is their turn again. Should be more than the last-level cache.
    pub cold_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { time: Duration::from_millis(300), cold_bytes: 512 << 20 }
    }
}

/// Times of one case.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Median time of a call, in microseconds.
    pub median_us: f64,
    /// Shortest time of a call, in microseconds.
    pub best_us: f64,
    /// Calls that were timed.
    pub calls: usize,
    /// What a call moves and computes.
    #[serde(flatten)]
    pub cost: Cost,
}

impl Measured {
    /// Bytes of a call by its median time, in GB/s.
    pub fn gb_per_s(&self) -> f64 {
        self.cost.bytes as f64 / self.median_us / 1e3
    }

    /// Operations of a call by its median time, in 1e9 a second.
    pub fn gops(&self) -> f64 {
        self.cost.ops as f64 / self.median_us / 1e3
    }
}

/// Times `call` until the budget is spent. The first call is not counted: it makes room for
/// intermediate values.
pub(crate) fn measure<B: Device>(
    backend: &mut B,
    budget: &Budget,
    cost: Cost,
    call: &mut Call<'_, B>,
) -> Result<Measured, Error> {
    let mut clock = Clock::start(backend, call)?;
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || started.elapsed() < budget.time {
        times.push(clock.time(backend, call)? * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    let (median_us, best_us) = (times[times.len() / 2], times[0]);
    Ok(Measured { median_us, best_us, calls: times.len() * clock.batch, cost })
}

/// Seconds that a device which does its work later is given at a time: less leaves it idle in
/// between, and a GPU that is idle lowers its clock.
const BATCH_SECONDS: f64 = 1e-2;

/// Most calls of a batch.
const MOST_CALLS: f64 = 2048.0;

/// Tells how long calls take, whether they are done when they return or later.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Calls that are timed together.
    pub(crate) batch: usize,
    /// Calls so far.
    made: usize,
}

impl Clock {
    /// Makes a first call, and a second one where batches are needed.
    pub(crate) fn start<B: Device>(backend: &mut B, call: &mut Call<'_, B>) -> Result<Self, Error> {
        call(backend, 0)?;
        let mut clock = Self { batch: 1, made: 1 };
        if backend.finish()?.is_some() {
            let one = clock.time(backend, call)?;
            clock.batch = (BATCH_SECONDS / one.max(1e-9)).clamp(1.0, MOST_CALLS) as usize;
        }
        Ok(clock)
    }

    /// Seconds per call of one batch more.
    pub(crate) fn time<B: Device>(
        &mut self,
        backend: &mut B,
        call: &mut Call<'_, B>,
    ) -> Result<f64, Error> {
        let begin = Instant::now();
        for _ in 0..self.batch {
            call(backend, self.made)?;
            self.made += 1;
        }
        let busy = backend.finish()?;
        Ok(busy.unwrap_or_else(|| begin.elapsed().as_secs_f64()) / self.batch as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::reference::Reference;

    #[test]
    fn a_budget_of_no_time_makes_three_counted_calls() {
        let budget = Budget { time: Duration::ZERO, cold_bytes: 0 };
        let calls = std::cell::RefCell::new(Vec::new());
        let cost = Cost { bytes: 10, ops: 20 };
        let mut call: Call<'_, Reference> = Box::new(|_, i| {
            calls.borrow_mut().push(i);
            Ok(())
        });
        let measured = measure(&mut Reference, &budget, cost, &mut call);
        drop(call);
        assert_eq!((measured.unwrap().calls, calls.into_inner()), (3, vec![0, 1, 2, 3]));
    }
}
