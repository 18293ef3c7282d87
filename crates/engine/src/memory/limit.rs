//! How much memory may be taken, and who says so.

use super::Size;
use kernels::host::MemoryRoom;
use std::fmt;

/// Of what the system says, one part in so many is left to others, as far as [`MOST_MARGIN`].
const MARGIN: u64 = 16;

/// Most that is left to others.
const MOST_MARGIN: u64 = 1 << 30;

/// How much memory is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ram {
    /// What can be had, less a margin.
    #[default]
    Auto,
    /// So many bytes at most.
    Bytes(u64),
}

/// Who limits memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// Whoever gave the setting.
    Setting,
    /// The machine has no more free.
    Free,
    /// A container, or another control group.
    Container,
    /// Limits of the process.
    Process,
}

/// Bytes that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// How many.
    pub bytes: u64,
    /// Who says so.
    pub source: LimitSource,
}

impl MemoryLimit {
    /// What is asked for, or what `room` leaves less a margin; `None` where nothing limits it.
    /// Limits of the process do not count pages of files, of which `mapped` bytes will be held.
    pub fn resolve(ram: Ram, room: &MemoryRoom, mapped: u64) -> Option<Self> {
        if let Ram::Bytes(bytes) = ram {
            return Some(Self { bytes, source: LimitSource::Setting });
        }
        let process = room.process.map(|bytes| bytes.saturating_add(mapped));
        let least = [
            (room.free, LimitSource::Free),
            (room.container, LimitSource::Container),
            (process, LimitSource::Process),
        ];
        let least = least.into_iter().filter_map(|(bytes, source)| Some((bytes?, source)));
        let (bytes, source) = least.min_by_key(|(bytes, _)| *bytes)?;
        Some(Self { bytes: bytes - (bytes / MARGIN).min(MOST_MARGIN), source })
    }
}

impl LimitSource {
    /// In words, behind "as".
    pub fn why(self) -> &'static str {
        match self {
            Self::Setting => "as was asked for",
            Self::Free => "of what the system has free",
            Self::Container => "of what the container's limit leaves",
            Self::Process => "of what the process's own limits (ulimit) leave",
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Free => "system",
            Self::Container => "container",
            Self::Process => "ulimit",
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", Size(self.bytes), self.source.why())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_what_is_said_counts_less_a_margin() {
        let gib = |n: u64| n << 30;
        let resolve = |ram, free, container, process| {
            let room = MemoryRoom { free, container, process };
            let limit = MemoryLimit::resolve(ram, &room, gib(2))?;
            Some((limit.bytes, limit.source))
        };
        let auto = Ram::Auto;
        assert_eq!(resolve(auto, None, None, None), None);
        let free = resolve(auto, Some(gib(32)), None, None);
        assert_eq!(free, Some((gib(31), LimitSource::Free)));
        let container = resolve(auto, Some(gib(32)), Some(gib(8)), None);
        assert_eq!(container, Some((gib(8) / 16 * 15, LimitSource::Container)));
        // Two more are those of the mapped file.
        let process = resolve(auto, Some(gib(32)), Some(gib(8)), Some(gib(2)));
        assert_eq!(process, Some((gib(4) / 16 * 15, LimitSource::Process)));
        let set = resolve(Ram::Bytes(gib(64)), Some(gib(1)), None, None);
        assert_eq!(set, Some((gib(64), LimitSource::Setting)));
        assert_eq!(resolve(auto, Some(0), None, None), Some((0, LimitSource::Free)));
    }
}
