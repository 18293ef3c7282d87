//! What the disk gives: reads of the size of an expert's matrices, as many at once as a store has.

use crate::buffer::Buffer;
use crate::disk::read_part;
use crate::pool::lock;
use crate::{Disk, FileDisk, StoreError, Way};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How a disk is measured.
#[derive(Clone, Copy, Debug)]
pub struct ReadSpeed {
    /// Bytes of a read.
    pub bytes: usize,
    /// Reads under way at once.
    pub threads: usize,
    /// How bytes come from the disk.
    pub way: Way,
    /// How long.
    pub time: Duration,
}

/// Bytes per second that reads from all over a file reach. `None` for a file shorter than a read.
///
/// # Errors
/// As for any read of a store.
pub fn read_speed(path: &Path, how: ReadSpeed) -> Result<Option<f64>, StoreError> {
    let disk = FileDisk::open(path, how.way)?;
    let len = path.metadata().map_err(|source| StoreError::open(path, source))?.len();
    let places = len / how.bytes.max(1) as u64;
    if places == 0 {
        return Ok(None);
    }
    let sum = Mutex::new((0_u64, None));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..how.threads.max(1) as u64 {
            let (disk, sum) = (&disk, &sum);
            scope.spawn(move || {
                let mut buffer = Buffer::new(how.bytes);
                let mut place = thread;
                while start.elapsed() < how.time {
                    // Steps by a large odd number: all over the file, and no place soon again.
                    place =
                        place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * thread + 1);
                    let offset = (place >> 16) % places * how.bytes as u64;
                    let result = read_part(disk as &dyn Disk, (offset, how.bytes), &mut buffer);
                    let mut sum = lock(sum);
                    match result {
                        Ok(range) => sum.0 += range.len() as u64,
                        Err(error) => {
                            sum.1.get_or_insert(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    match sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        (_, Some(error)) => Err(error),
        (bytes, None) => Ok(Some(bytes as f64 / seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_measured_or_too_short() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let time = Duration::from_millis(20);
        let how = ReadSpeed { bytes: 5000, threads: 3, way: Way::Direct, time };
        assert_eq!(read_speed(file.path(), how).unwrap(), None);
        std::fs::write(file.path(), vec![7; 100_000]).unwrap();
        assert!(read_speed(file.path(), how).unwrap().unwrap() > 0.0);
        assert!(read_speed(&file.path().join("none"), how).is_err());
    }
}
