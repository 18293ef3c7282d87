//! Memory that may be refused.
//!
//! Sizes of states and buffers follow from a model file and from settings, and a system that
//! overcommits grants any of them, only to kill the process when the pages are used. So what the
//! system says it has left is asked first.

use crate::Error;

/// Smaller requests are not worth a look at the system's figures.
const LARGE: usize = 16 << 20;

/// A zeroed vector, or an error when memory is short.
///
/// # Errors
/// [`Error::OutOfMemory`], naming `what` the memory was for.
pub fn zeroed(len: usize, what: &'static str) -> Result<Vec<f32>, Error> {
    let mut values = Vec::new();
    grow(&mut values, len, what)?;
    values.resize(len, 0.0);
    Ok(values)
}

/// Makes room for `rows` rows of `width` values, growing by half at least so that the copying of a
/// long sequence stays linear.
pub(super) fn reserve<T>(values: &mut Vec<T>, rows: usize, width: usize) -> Result<(), Error> {
    let len = rows.saturating_mul(width);
    if len <= values.capacity() {
        return Ok(());
    }
    grow(values, len.max(values.capacity() + values.capacity() / 2), "keys and values")
}

/// Makes the capacity at least `len` values.
fn grow<T>(values: &mut Vec<T>, len: usize, what: &'static str) -> Result<(), Error> {
    let bytes = len.saturating_mul(size_of::<T>());
    let short = || Error::OutOfMemory { device: "host", bytes, what };
    if bytes >= LARGE && available_memory().is_some_and(|left| bytes as u64 > left) {
        return Err(short());
    }
    values.try_reserve_exact(len.saturating_sub(values.len())).map_err(|_| short())
}

/// Bytes that the system can still give this process: free and reclaimable memory, less where a
/// container allows less. `None` where the system does not say.
pub fn available_memory() -> Option<u64> {
    let free = kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(container_room().map_or(free, |room| room.min(free)))
}

/// Bytes of memory that this process could have if it were alone: what the machine has, less where a
/// container allows less. `None` where the system does not say.
pub fn total_memory() -> Option<u64> {
    let all = kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    Some(container_bytes("memory.max").map_or(all, |most| most.min(all)))
}

/// The value of `key` in a table of kB, in bytes.
fn kilobytes(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes below the limit of the control group, if it has one.
fn container_room() -> Option<u64> {
    Some(container_bytes("memory.max")?.saturating_sub(container_bytes("memory.current")?))
}

/// A figure of the control group, if it has one; "max", for no limit, is none.
fn container_bytes(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_136_more_than_there_is_is_refused_before_it_is_touched() {
        // A tebibyte: an overcommitting system would grant it.
        let result = zeroed(1 << 38, "a test");
        assert!(matches!(result, Err(Error::OutOfMemory { bytes, .. }) if bytes == 1 << 40));
        let mut values = vec![1.0; 3];
        assert!(reserve(&mut values, 1 << 30, 1 << 8).is_err());
        assert_eq!(values, [1.0; 3]);
        assert!(zeroed(usize::MAX, "a test").is_err());
    }

    #[test]
    fn reads_the_system_s_table() {
        let table = "MemTotal:       24000000 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(kilobytes(table, "MemAvailable:"), Some(1 << 20));
        assert_eq!(kilobytes("MemAvailable: many", "MemAvailable:"), None);
    }

    #[test]
    fn what_is_left_is_a_part_of_all() {
        let (left, all) = (available_memory(), total_memory());
        assert_eq!((left.is_some(), all.is_some()), [cfg!(target_os = "linux"); 2].into());
        let (Some(left), Some(all)) = (left, all) else { return };
        assert!(0 < all && left <= all, "{left} of {all}");
    }
}
