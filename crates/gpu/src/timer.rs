//! The device's own clock: how long it was at work, without what the host took to ask for it.

use crate::lists::{Lists, Stamps};
use std::time::Instant;
use wgpu::Features;

/// What a device needs to be timed by its own clock.
pub(crate) const FEATURES: Features =
    Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// Begin and end of some work.
#[derive(Debug)]
pub(crate) struct Timer {
    /// `None` where the device has no clock that can be read: the host's is used.
    stamps: Option<Stamps>,
    seconds_per_tick: f64,
    /// When the first list of the work was begun; `None` before.
    begun: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(lists: &mut dyn Lists, queue: &wgpu::Queue) -> Self {
        let seconds_per_tick = f64::from(queue.get_timestamp_period()) * 1e-9;
        Self { stamps: lists.stamps(2), seconds_per_tick, begun: None }
    }

    /// Notes the begin in a new list, unless the work has begun already.
    pub(crate) fn begin(&mut self, lists: &mut dyn Lists) {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            if let Some(stamps) = &self.stamps {
                lists.stamp(stamps, 0);
            }
        }
    }

    /// Notes the end in the last list.
    pub(crate) fn end(&self, lists: &mut dyn Lists) {
        if let Some(stamps) = &self.stamps {
            lists.stamp(stamps, 1);
            lists.resolve(stamps, 2);
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
        match stamps {
            Some([first, last]) if begun.is_some() => {
                last.saturating_sub(first) as f64 * self.seconds_per_tick
            }
            _ => begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        }
    }
}
