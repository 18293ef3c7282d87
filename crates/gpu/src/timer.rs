//! The device's own clock: how long it was at work, without what the host took to ask for it.

use std::time::Instant;
use wgpu::{BufferUsages, CommandEncoder, Features, QuerySet};

/// What a device needs to be timed by its own clock.
pub(crate) const FEATURES: Features =
    Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// Bytes of two time stamps.
const BYTES: u64 = 16;

/// Begin and end of some work.
#[derive(Debug)]
pub(crate) struct Timer {
    /// `None` where the device has no clock that can be read: the host's is used.
    stamps: Option<Stamps>,
    /// When the first list of the work was begun; `None` before.
    begun: Option<Instant>,
}

#[derive(Debug)]
struct Stamps {
    set: QuerySet,
    resolved: wgpu::Buffer,
    readable: wgpu::Buffer,
    seconds_per_tick: f64,
}

impl Timer {
    pub(crate) fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let stamps = device.features().contains(FEATURES).then(|| {
            let make = |usage| {
                device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("time stamps"),
                    size: BYTES,
                    usage,
                    mapped_at_creation: false,
                })
            };
            Stamps {
                set: device.create_query_set(&wgpu::QuerySetDescriptor {
                    label: Some("time stamps"),
                    ty: wgpu::QueryType::Timestamp,
                    count: 2,
                }),
                resolved: make(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
                readable: make(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
                seconds_per_tick: f64::from(queue.get_timestamp_period()) * 1e-9,
            }
        });
        Self { stamps, begun: None }
    }

    /// Notes the begin in a new list, unless the work has begun already.
    pub(crate) fn begin(&mut self, encoder: &mut CommandEncoder) {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            if let Some(stamps) = &self.stamps {
                encoder.write_timestamp(&stamps.set, 0);
            }
        }
    }

    /// Notes the end in the last list.
    pub(crate) fn end(&self, encoder: &mut CommandEncoder) {
        if let Some(stamps) = &self.stamps {
            encoder.write_timestamp(&stamps.set, 1);
            encoder.resolve_query_set(&stamps.set, 0..2, &stamps.resolved, 0);
            encoder.copy_buffer_to_buffer(&stamps.resolved, 0, &stamps.readable, 0, BYTES);
        }
    }

    /// Where both stamps are to be read, after the last list; `None` where the host's clock is used.
    pub(crate) fn readable(&self) -> Option<&wgpu::Buffer> {
        self.stamps.as_ref().map(|stamps| &stamps.readable)
    }

    /// Seconds from begin to end, by these stamps or else by the host's clock; the next work begins
    /// anew.
    pub(crate) fn take(&mut self, stamps: Option<[u64; 2]>) -> f64 {
        let begun = self.begun.take();
        match (&self.stamps, stamps) {
            (Some(own), Some([first, last])) if begun.is_some() => {
                last.saturating_sub(first) as f64 * own.seconds_per_tick
            }
            _ => begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        }
    }
}
