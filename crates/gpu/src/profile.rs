//! Where the device's time goes, kernel by kernel. While a profile is taken each call is a pass of
//! its own, so the sum is less than a window takes otherwise: what lies between the calls is not
//! in it.

use std::collections::BTreeMap;
use wgpu::{BufferUsages, CommandEncoder, ComputePassTimestampWrites, QuerySet};

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
    set: QuerySet,
    resolved: wgpu::Buffer,
    readable: wgpu::Buffer,
    seconds_per_tick: f64,
    /// Kernels of the calls that are recorded and not read yet.
    calls: Vec<String>,
    pub(crate) times: BTreeMap<String, KernelTime>,
}

impl Profile {
    pub(crate) fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let make = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("profile"),
                size: 16 * u64::from(MOST_CALLS),
                usage,
                mapped_at_creation: false,
            })
        };
        Self {
            set: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * MOST_CALLS,
            }),
            resolved: make(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            readable: make(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
            seconds_per_tick: f64::from(queue.get_timestamp_period()) * 1e-9,
            calls: Vec::new(),
            times: BTreeMap::new(),
        }
    }

    /// Where the next call, of this kernel, notes its begin and end.
    pub(crate) fn call(&mut self, kernel: &str) -> Option<ComputePassTimestampWrites<'_>> {
        let index = 2 * u32::try_from(self.calls.len()).unwrap_or(u32::MAX / 2);
        if index >= 2 * MOST_CALLS {
            self.times.entry(kernel.to_owned()).or_default().calls += 1;
            return None;
        }
        self.calls.push(kernel.to_owned());
        Some(ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        })
    }

    /// Ends a list; what it noted is then to be read.
    pub(crate) fn end(&self, encoder: &mut CommandEncoder) {
        let count = 2 * self.calls.len() as u32;
        if count > 0 {
            let bytes = 8 * u64::from(count);
            encoder.resolve_query_set(&self.set, 0..count, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, bytes);
        }
    }

    /// The stamps' buffer, and the number of stamps in it.
    pub(crate) fn noted(&self) -> (wgpu::Buffer, usize) {
        (self.readable.clone(), 2 * self.calls.len())
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
