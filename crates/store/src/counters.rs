//! What a store has done so far.

use std::time::{Duration, Instant};

/// Sums since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Experts that windows wanted, each once per window and layer.
    pub wanted: u64,
    /// Of those, in memory when they were wanted.
    pub held: u64,
    /// Of those held, there because they had been expected.
    pub foreseen: u64,
    /// Of those wanted, being read by then because they had been expected.
    pub under_way: u64,
    /// Experts that were read because they were expected.
    pub expected: u64,
    /// Of those, dropped or passed over without use.
    pub in_vain: u64,
    /// Bytes read of experts.
    pub bytes: u64,
    /// Experts dropped to make room.
    pub dropped: u64,
    /// Time during which something was being read.
    pub reading: Duration,
    /// Time that windows waited for reads.
    pub waiting: Duration,
    /// Reads that failed.
    pub failed: u64,
}

impl Counters {
    /// What came after `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            wanted: self.wanted - before.wanted,
            held: self.held - before.held,
            foreseen: self.foreseen - before.foreseen,
            under_way: self.under_way - before.under_way,
            expected: self.expected - before.expected,
            in_vain: self.in_vain - before.in_vain,
            bytes: self.bytes - before.bytes,
            dropped: self.dropped - before.dropped,
            reading: self.reading - before.reading,
            waiting: self.waiting - before.waiting,
            failed: self.failed - before.failed,
        }
    }

    /// The part of the wanted experts that was in memory; `None` when none were wanted.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.held as f64 / self.wanted as f64)
    }

    /// Bytes per second while something was being read.
    pub fn bandwidth(&self) -> Option<f64> {
        let seconds = self.reading.as_secs_f64();
        (seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// How long anything was being done by anyone.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    running: usize,
    since: Option<Instant>,
    total: Duration,
}

impl Busy {
    pub(crate) fn begin(&mut self) {
        self.running += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn end(&mut self) {
        self.running -= 1;
        if self.running == 0 {
            self.total += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }

    pub(crate) fn total(&self) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
