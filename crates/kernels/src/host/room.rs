//! How much memory the system can still give this process, as Linux tells it: what is free, what
//! the limits of the control groups around it leave (containers are made of them), and what those
//! of the process itself do (`ulimit`).

/// Bytes that can still be had, by what limits them; `None` where nothing does or nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Memory of the machine: free, or reclaimable at once.
    pub free: Option<u64>,
    /// Below the limit of the control group with the least room.
    pub container: Option<u64>,
    /// Below the limits of the process, for memory that is not a mapped file's.
    pub process: Option<u64>,
}

impl MemoryRoom {
    /// What it is now.
    pub fn now() -> Self {
        Self::read(&|path| std::fs::read_to_string(path).ok())
    }

    /// The least of all.
    pub fn least(&self) -> Option<u64> {
        [self.free, self.container, self.process].into_iter().flatten().min()
    }

    /// As the files say that `read` gives.
    fn read(read: &dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            free: read("/proc/meminfo").and_then(|table| kilobytes(&table, "MemAvailable:")),
            container: container(read),
            process: process(read),
        }
    }
}

/// Bytes that the system can still give this process: free and reclaimable memory, less where a
/// container or a limit of the process allows less. `None` where the system does not say.
pub fn available_memory() -> Option<u64> {
    MemoryRoom::now().least()
}

/// Bytes of memory that this process could have if it were alone: what the machine has, less where
/// a container allows less. `None` where the system does not say.
pub fn total_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let all = kilobytes(&read("/proc/meminfo")?, "MemTotal:")?;
    let container = groups(&read, |version, folder| version.limit(&read, folder));
    Some(container.map_or(all, |most| most.min(all)))
}

/// The value of `key` in a table of kB, in bytes.
fn kilobytes(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least room of the control groups that this process is in, and of those around them.
fn container(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    groups(read, |version, folder| version.room(read, folder))
}

/// The least figure of the control groups that this process is in, and of those around them.
fn groups(
    read: &dyn Fn(&str) -> Option<String>,
    figure: impl Fn(&Version, &str) -> Option<u64>,
) -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (version, mount) = match controllers {
            "" => (&V2, "/sys/fs/cgroup"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (&V1, "/sys/fs/cgroup/memory")
            }
            _ => continue,
        };
        let figures = levels(mount, path).filter_map(|folder| figure(version, &folder));
        least = least.into_iter().chain(figures).min();
    }
    least
}

/// The folder of a group and those of the groups around it. A container may see its own group at
/// the mount point while its path is told as the machine sees it: folders that are not there limit
/// nothing.
fn levels(mount: &str, path: &str) -> impl Iterator<Item = String> {
    let mut folder = mount.to_owned();
    // A path that leads out of what is mounted can not be followed.
    let names = path.split('/').filter(|name| !name.is_empty() && *name != "..");
    let below: Vec<String> = names
        .map(|name| {
            folder = format!("{folder}/{name}");
            folder.clone()
        })
        .collect();
    std::iter::once(mount.to_owned()).chain(below)
}

/// Names of a control group's files.
struct Version {
    limits: &'static [&'static str],
    usage: &'static str,
    /// Entries of `memory.stat` that are pages of files.
    file_pages: [&'static str; 2],
}

const V2: Version = Version {
    // Above `high` a group is slowed down and its pages are taken away.
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    file_pages: ["inactive_file", "active_file"],
};

const V1: Version = Version {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    file_pages: ["total_inactive_file", "total_active_file"],
};

impl Version {
    /// The limit of the group of this folder, if it has one.
    fn limit(&self, read: &dyn Fn(&str) -> Option<String>, folder: &str) -> Option<u64> {
        let number = |name: &str| read(&format!("{folder}/{name}"))?.trim().parse::<u64>().ok();
        self.limits.iter().filter_map(|name| number(name)).min()
    }

    /// Bytes below it.
    fn room(&self, read: &dyn Fn(&str) -> Option<String>, folder: &str) -> Option<u64> {
        let number = |name: &str| read(&format!("{folder}/{name}"))?.trim().parse::<u64>().ok();
        let limit = self.limit(read, folder)?;
        // A limit that nobody set is a number near 2^63 in version 1.
        if limit >= 1 << 62 {
            return None;
        }
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        // Pages of files are charged to the group that read them first, and are given back when
        // memory is short, as in MemAvailable: a model that was read once must not count twice.
        let pages = self.file_pages.iter().filter_map(|name| entry(&stat, name)).sum();
        Some(limit.saturating_sub(number(self.usage)?.saturating_sub(pages)))
    }
}

/// The number behind `name` in a table of lines `name number`.
fn entry(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

/// Bytes that the limits on address space and data leave.
fn process(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = read("/proc/self/limits")?;
    let status = read("/proc/self/status")?;
    let room = |name: &str, used: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let soft = line.split_whitespace().next()?.parse::<u64>().ok()?;
        Some(soft.saturating_sub(kilobytes(&status, used)?))
    };
    let rooms = [room("Max address space", "VmSize:"), room("Max data size", "VmData:")];
    rooms.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from these files.
    fn room(files: &[(&str, &str)]) -> MemoryRoom {
        MemoryRoom::read(&|path| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn reads_the_system_s_table() {
        let table = "MemTotal:       24000000 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(kilobytes(table, "MemAvailable:"), Some(1 << 20));
        assert_eq!(kilobytes("MemAvailable: many", "MemAvailable:"), None);
        let found = room(&[("/proc/meminfo", table)]);
        let expected = MemoryRoom { free: Some(1 << 20), ..MemoryRoom::default() };
        assert_eq!((found, found.least()), (expected, Some(1 << 20)));
        assert_eq!(room(&[]).least(), None);
    }

    #[test]
    fn the_groups_around_a_group_count_and_pages_of_files_do_not() {
        let found = room(&[
            ("/proc/self/cgroup", "0::/user.slice/job\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "1000000\n"),
            ("/sys/fs/cgroup/user.slice/memory.current", "700000\n"),
            (
                "/sys/fs/cgroup/user.slice/memory.stat",
                "anon 1\nfile 9\ninactive_file 150000\nactive_file 50000\n",
            ),
            ("/sys/fs/cgroup/user.slice/job/memory.max", "max\n"),
            ("/sys/fs/cgroup/user.slice/job/memory.high", "900000\n"),
            ("/sys/fs/cgroup/user.slice/job/memory.current", "100000\n"),
        ]);
        assert_eq!(found.container, Some(500_000));
    }

    #[test]
    fn a_container_may_see_its_group_at_the_mount_point() {
        for path in ["/docker/0123", "/../..", "/"] {
            let found = room(&[
                ("/proc/self/cgroup", &format!("0::{path}\n")),
                ("/sys/fs/cgroup/memory.max", "5000\n"),
                ("/sys/fs/cgroup/memory.current", "6000\n"),
            ]);
            assert_eq!(found.container, Some(0), "{path}");
        }
    }

    #[test]
    fn version_1_has_other_names_and_a_number_for_no_limit() {
        let files = [
            ("/proc/self/cgroup", "8:pids:/\n4:cpuset,memory:/a/b\n0::/\nbad\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "3000\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 7\ntotal_inactive_file 500\n"),
        ];
        assert_eq!(room(&files).container, Some(1596));
        assert_eq!(room(&files[..3]).container, None);
    }

    #[test]
    fn limits_of_the_process_leave_what_it_has_not_taken() {
        let limits = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max data size             {data}            unlimited            bytes\n\
                 Max address space         {space}            unlimited            bytes\n"
            )
        };
        let status = "Name:\tx\nVmSize:\t    1024 kB\nVmData:\t     512 kB\n";
        let of = |space: &str, data: &str| {
            let limits = limits(space, data);
            room(&[("/proc/self/limits", &limits), ("/proc/self/status", status)]).process
        };
        assert_eq!(of("unlimited", "unlimited"), None);
        assert_eq!(of("4194304", "unlimited"), Some(3 << 20));
        assert_eq!(of("4194304", "1048576"), Some(512 << 10));
        assert_eq!(of("1000", "unlimited"), Some(0));
    }

    #[test]
    fn what_is_left_is_a_part_of_all() {
        let (left, all) = (available_memory(), total_memory());
        assert_eq!((left.is_some(), all.is_some()), [cfg!(target_os = "linux"); 2].into());
        let (Some(left), Some(all)) = (left, all) else { return };
        assert!(0 < all && left <= all, "{left} of {all}");
    }
}
