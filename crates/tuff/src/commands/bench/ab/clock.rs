//! How fast the processors run, where the system tells.

use std::fs;
use std::path::Path;

/// The clock of the fastest processor at this moment, in MHz: the others may be idle.
pub(super) fn mhz() -> Option<f64> {
    from_drivers(Path::new("/sys/devices/system/cpu")).or_else(|| {
        let table = fs::read_to_string("/proc/cpuinfo").ok()?;
        from_table(&table)
    })
}

/// Of the files `cpu*/cpufreq/scaling_cur_freq`, in kHz.
fn from_drivers(folder: &Path) -> Option<f64> {
    let clock = |entry: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(entry.path().join("cpufreq/scaling_cur_freq")).ok()?;
        text.trim().parse().ok()
    };
    let clocks = fs::read_dir(folder).ok()?.flatten().filter_map(clock);
    fastest(clocks.map(|khz| khz / 1e3))
}

/// Of the lines `cpu MHz : 2300.000`.
fn from_table(table: &str) -> Option<f64> {
    let lines = table.lines().filter(|line| line.starts_with("cpu MHz"));
    fastest(lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()))
}

fn fastest(clocks: impl Iterator<Item = f64>) -> Option<f64> {
    clocks.filter(|mhz| mhz.is_finite() && *mhz > 0.0).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_processor_counts() {
        let table =
            "processor : 0\ncpu MHz\t\t: 800.1\ncpu MHz : x\nprocessor : 1\ncpu MHz : 2300.5\n";
        assert_eq!(from_table(table), Some(2300.5));
        assert_eq!(from_table("model name : y\n"), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(from_drivers(folder.path()), None);
        for (cpu, khz) in [("cpu0", "1200000\n"), ("cpu1", "3400000\n"), ("cpu2", "no\n")] {
            let place = folder.path().join(cpu).join("cpufreq");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("scaling_cur_freq"), khz).unwrap();
        }
        assert_eq!(from_drivers(folder.path()), Some(3400.0));
    }
}
