//! How many threads suit this machine: one per physical core that the process may use.
//!
//! The second hardware thread of a core shares its vector units and its cache with the first, which
//! keeps both busy; it would only come late to the end of every region.

use std::collections::HashSet;
use std::path::Path;

/// Physical cores that this process may use, at least 1; processors where the system does not say
/// which of them share a core.
pub(crate) fn physical() -> usize {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    from_system().map_or(available, |cores| cores.clamp(1, available))
}

/// What the system calls the processor, its architecture where it does not say.
pub(crate) fn name() -> String {
    let table = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.filter(|name| !name.is_empty()).unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Of Linux's description of the machine, and the processors that it allows this process.
fn from_system() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    count(allowed, |cpu| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        // Some systems say -1 for what they do not know.
        let known = |text: &String| !text.starts_with('-');
        let read =
            |name: &str| std::fs::read_to_string(Path::new(&folder).join(name)).ok().filter(known);
        Some((read("physical_package_id")?, read("core_id")?))
    })
}

/// Different cores, each known by `core_of`, among the processors of a list like `0-3,8`.
fn count(list: &str, core_of: impl Fn(usize) -> Option<(String, String)>) -> Option<usize> {
    let mut cores = HashSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        for cpu in first.parse().ok()?..=last.parse().ok()? {
            cores.insert(core_of(cpu)?);
        }
    }
    Some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of four cores; processors 8 and up are the second threads of the cores.
    fn core_of(cpu: usize) -> Option<(String, String)> {
        (cpu < 16).then(|| ((cpu % 8 / 4).to_string(), (cpu % 4).to_string()))
    }

    #[test]
    fn counts_cores_not_their_threads() {
        let cases = [("0-15", 8), ("0-7", 8), ("0,8", 1), ("0-1,8-9", 2), ("3,4", 2), ("5", 1)];
        for (list, cores) in cases {
            assert_eq!(count(list, core_of), Some(cores), "{list}");
            assert_eq!(count(&format!("\t{list}\n"), core_of), Some(cores), "{list}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        for list in ["", "x", "0-", "0-99", "16"] {
            assert_eq!(count(list, core_of), None, "{list}");
        }
        assert_eq!(count("0-3", |_| None), None);
    }

    #[test]
    fn there_is_at_least_one_and_not_more_than_processors() {
        let available = std::thread::available_parallelism().unwrap().get();
        assert!((1..=available).contains(&physical()));
    }
}
