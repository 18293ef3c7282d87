//! Time per call.

use kernels::Error;
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
pub(crate) fn measure(
    budget: &Budget,
    cost: Cost,
    mut call: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Measured, Error> {
    call(0)?;
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || started.elapsed() < budget.time {
        let begin = Instant::now();
        call(times.len() + 1)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    let (median_us, best_us) = (times[times.len() / 2], times[0]);
    Ok(Measured { median_us, best_us, calls: times.len(), cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_no_time_makes_three_counted_calls() {
        let budget = Budget { time: Duration::ZERO, cold_bytes: 0 };
        let mut calls = Vec::new();
        let cost = Cost { bytes: 10, ops: 20 };
        let measured = measure(&budget, cost, |i| {
            calls.push(i);
            Ok(())
        });
        assert_eq!((measured.unwrap().calls, calls), (3, vec![0, 1, 2, 3]));
    }
}
