//! What the process reads from storage: of a model that does not fit into memory, the pages that
//! are not there when a window wants them. Looked at only when somebody asks.

use crate::status::{GRAIN, SPAN};
use std::collections::VecDeque;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Bytes read so far, and per second lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StorageReads {
    pub(crate) bytes: u64,
    /// `None` until somebody has looked twice.
    pub(crate) per_second: Option<f64>,
}

/// The looks of those who ask; a speed lies between two of them.
#[derive(Debug, Default)]
pub(crate) struct Storage(Mutex<VecDeque<(Instant, u64)>>);

impl Storage {
    /// What was read until now; `None` where the system does not tell as Linux does.
    pub(crate) fn look(&self) -> Option<StorageReads> {
        let bytes = read_bytes(&fs::read_to_string("/proc/self/io").ok()?)?;
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(StorageReads { bytes, per_second: speed(&mut looks, Instant::now(), bytes) })
    }
}

/// Adds a look; the speed since the first one that is not too old, or else the last one that is.
fn speed(looks: &mut VecDeque<(Instant, u64)>, now: Instant, bytes: u64) -> Option<f64> {
    while looks.get(1).is_some_and(|(at, _)| now - *at >= SPAN) {
        looks.pop_front();
    }
    let first = looks.front().copied();
    if looks.back().is_none_or(|(at, _)| now - *at >= GRAIN) {
        looks.push_back((now, bytes));
    }
    let (at, before) = first?;
    let seconds = (now - at).as_secs_f64();
    (seconds > 0.0).then(|| bytes.saturating_sub(before) as f64 / seconds)
}

fn read_bytes(table: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_system_s_table_is_read() {
        let table = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\ncancelled_write_bytes: 0\n";
        assert_eq!(read_bytes(table), Some(4096));
        for bad in ["", "read_bytes: many", "xread_bytes: 1"] {
            assert_eq!(read_bytes(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_speed_lies_between_looks() {
        let start = Instant::now();
        let mut looks = VecDeque::new();
        let mut at = |milliseconds: u64, bytes| {
            speed(&mut looks, start + Duration::from_millis(milliseconds), bytes)
        };
        assert_eq!(at(0, 1000), None);
        assert_eq!(at(0, 1000), None, "no time has gone by");
        assert_eq!(at(50, 2000), Some(20_000.0), "since the first look; not kept, it is so soon");
        assert_eq!(at(500, 2000), Some(2000.0));
        assert_eq!(at(4500, 2000), Some(1000.0 / 4.5));
        // Since the look at 500 ms: the first one is too old.
        assert_eq!(at(5500, 7000), Some(1000.0));
        // After a pause, since the last look there was.
        assert_eq!(at(105_500, 7000), Some(0.0));
    }
}
