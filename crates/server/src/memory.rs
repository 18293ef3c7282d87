//! Memory that the process takes, as the system tells it.

use std::fs;

/// Memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Bytes that are in memory.
    pub(crate) resident: u64,
    /// Of these, pages of mapped files, as of the model: the system can take them back.
    pub(crate) file: u64,
}

impl Memory {
    /// What it is now; `None` where the system does not tell as Linux does.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/self/status").ok()?)
    }

    fn read(status: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(Self { resident: bytes("VmRSS:")?, file: bytes("RssFile:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        let text = "Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 1 kB\nRssFile:\t     512 kB\n";
        assert_eq!(Memory::read(text), Some(Memory { resident: 2 << 20, file: 512 << 10 }));
        for bad in ["", "VmRSS: 1 kB", "VmRSS: x kB\nRssFile: 1 kB", "VmRSS: 1\nRssFile: 1 kB"] {
            assert_eq!(Memory::read(bad), None, "{bad:?}");
        }
    }
}
