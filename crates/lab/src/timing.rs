//! Time per call, and the bandwidth to compare it with.

use kernels::Error;
use std::hint::black_box;
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

/// GB/s at which `threads` threads together read `bytes` of memory, the best of several passes.
/// `bytes` should be more than the last-level cache.
pub fn read_bandwidth(threads: usize, bytes: usize) -> f64 {
    let words = vec![1u64; bytes / 8];
    let part = words.len().div_ceil(threads.max(1)).max(1);
    let pass = |read: fn(&[u64]) -> u64| {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for words in words.chunks(part) {
                scope.spawn(move || black_box(read(words)));
            }
        });
        begin.elapsed().as_secs_f64()
    };
    // Which pattern the hardware fetches ahead best depends on the machine.
    let patterns = [read::<1>, read::<4>, read::<16>];
    let best = (0..12).map(|i| pass(patterns[i % 3])).fold(f64::INFINITY, f64::min);
    (words.len() * 8) as f64 / best / 1e9
}

/// Adds up the words, in turn a cache line from each of `STREAMS` places.
fn read<const STREAMS: usize>(words: &[u64]) -> u64 {
    const LINE: usize = 8;
    let streams = words.chunks(words.len().div_ceil(STREAMS).max(1)).collect::<Vec<_>>();
    let longest = streams.first().map_or(0, |words| words.len());
    let mut sum = [0u64; LINE];
    for at in (0..longest).step_by(LINE) {
        for stream in &streams {
            if let Some(line) = stream.get(at..at + LINE) {
                sum.iter_mut().zip(line).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            }
        }
    }
    sum.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_reads_every_line() {
        let words = vec![1; 16 * 8 * 5];
        assert_eq!([read::<1>(&words), read::<4>(&words), read::<16>(&words)], [640; 3]);
        assert_eq!(read::<4>(&[]), 0);
    }

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
