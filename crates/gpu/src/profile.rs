//! Where the device's time goes, kernel by kernel. While a profile is taken each call is a pass of
//! its own, so the sum is less than a window takes otherwise: what lies between the calls is not
//! in it.

use crate::lists::{Lists, Stamps};
use std::collections::BTreeMap;

/// Calls of one submission that are timed; more are counted and not timed.
const MOST_CALLS: u32 = 2048;

/// What the calls of a kernel took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTime {
    /// Calls.
    pub calls: usize,
    /// Seconds of the device inside them.
    pub seconds: f64,
}

/// Times of calls by the kernels' names.
#[derive(Debug)]
pub(crate) struct Profile {
    stamps: Stamps,
    seconds_per_tick: f64,
    /// Kernels of the calls that are recorded and not read yet.
    calls: Vec<String>,
    pub(crate) times: BTreeMap<String, KernelTime>,
}

impl Profile {
    /// `None` where the device has no clock that can be read.
    pub(crate) fn new(lists: &mut dyn Lists, queue: &wgpu::Queue) -> Option<Self> {
        let stamps = lists.stamps(2 * MOST_CALLS)?;
        let seconds_per_tick = f64::from(queue.get_timestamp_period()) * 1e-9;
        Some(Self { stamps, seconds_per_tick, calls: Vec::new(), times: BTreeMap::new() })
    }

    /// Where the next call, of this kernel, notes its begin and, behind that, its end.
    pub(crate) fn call(&mut self, kernel: String) -> Option<(&Stamps, u32)> {
        let index = 2 * u32::try_from(self.calls.len()).unwrap_or(u32::MAX / 2);
        if index >= 2 * MOST_CALLS {
            self.times.entry(kernel).or_default().calls += 1;
            return None;
        }
        self.calls.push(kernel);
        Some((&self.stamps, index))
    }

    /// Ends a list; what it noted is then to be read.
    pub(crate) fn end(&self, lists: &mut dyn Lists) {
        let count = 2 * self.calls.len() as u32;
        if count > 0 {
            lists.resolve(&self.stamps, count);
        }
    }

    /// The stamps' buffer, and the number of stamps in it.
    pub(crate) fn noted(&self) -> (wgpu::Buffer, usize) {
        (self.stamps.readable.clone(), 2 * self.calls.len())
    }

    /// Drops the calls whose stamps could not be read.
    pub(crate) fn forget(&mut self) {
        self.calls.clear();
    }

    /// Adds up what the stamps say.
    pub(crate) fn add(&mut self, stamps: &[u64]) {
        for (kernel, stamps) in self.calls.drain(..).zip(stamps.as_chunks::<2>().0) {
            let time = self.times.entry(kernel).or_default();
            time.calls += 1;
            time.seconds += stamps[1].saturating_sub(stamps[0]) as f64 * self.seconds_per_tick;
        }
    }
}
