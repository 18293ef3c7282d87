//! How fast the memory can be read: what the speed of every kernel is compared with.

use crate::Cpu;
use crate::share::Shared;
use kernels::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Bytes read per pass, well above the caches; less where memory is short.
const LARGEST: usize = 512 << 20;
const SMALLEST: usize = 16 << 20;

/// Values per task: large enough that taking one costs nothing.
const TASK: usize = 1 << 18;

/// Passes, the best of which counts: other work on the machine can only slow them down.
const PASSES: usize = 6;

/// Regions per pass when they are timed.
const REGIONS: u32 = 1000;

/// Places of a task that are read at the same time: one place alone leaves the memory idle for a
/// part of the time, since the processor looks ahead within a page only.
const STREAMS: usize = 4;

/// Values of a place that are summed up side by side, so that no sum waits for the one before.
const LANES: usize = 8;

/// What [`Cpu::read_bandwidth`] found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Bytes read per second by all threads together.
    pub bytes_per_second: f64,
    /// Bytes that were read in each pass.
    pub buffer_bytes: usize,
}

impl Cpu {
    /// Measures how fast all threads together read a large buffer, in well under a second.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where not even a small buffer can be had.
    pub fn read_bandwidth(&mut self) -> Result<Bandwidth, Error> {
        self.read_buffer(LARGEST)
    }

    /// Bytes a second, read and written together, that all threads copy from one large buffer to
    /// another.
    ///
    /// # Errors
    /// As for [`Cpu::read_bandwidth`].
    pub fn copy_bandwidth(&mut self) -> Result<f64, Error> {
        self.copy_buffer(LARGEST)
    }

    fn copy_buffer(&mut self, largest: usize) -> Result<f64, Error> {
        let from = buffer(largest / 2)?;
        let mut to = buffer(size_of_val(&from[..]))?;
        let len = from.len().min(to.len());
        let out = Shared::new(&mut to[..len]);
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let started = Instant::now();
            self.pool.run(len.div_ceil(TASK), &|task| {
                let own = task * TASK..len.min((task + 1) * TASK);
                // SAFETY: a value belongs to one task.
                unsafe { out.slice(own.clone()) }.copy_from_slice(&from[own]);
            });
            best = best.min(started.elapsed().as_secs_f64());
        }
        black_box(&to);
        Ok((2 * len * size_of::<f32>()) as f64 / best)
    }

    /// Seconds that a region of the thread pool takes, with a task for each thread that does
    /// nothing.
    pub fn launch_time(&mut self) -> f64 {
        let threads = self.threads();
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let started = Instant::now();
            (0..REGIONS).for_each(|_| {
                self.pool.run(threads, &|task| {
                    black_box(task);
                })
            });
            best = best.min(started.elapsed().as_secs_f64() / f64::from(REGIONS));
        }
        best
    }

    /// Reads a buffer of up to `largest` bytes.
    fn read_buffer(&mut self, largest: usize) -> Result<Bandwidth, Error> {
        let buffer = buffer(largest)?;
        let tasks: Vec<&[f32]> = buffer.chunks(TASK).collect();
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let sum = AtomicU32::new(0);
            let started = Instant::now();
            self.pool.run(tasks.len(), &|task| {
                sum.fetch_add(sum_of_bits(tasks[task]), Ordering::Relaxed);
            });
            best = best.min(started.elapsed().as_secs_f64());
            black_box(sum);
        }
        let buffer_bytes = size_of_val(&buffer[..]);
        Ok(Bandwidth { bytes_per_second: buffer_bytes as f64 / best, buffer_bytes })
    }
}

/// The largest buffer that there is memory for, every page written.
fn buffer(largest: usize) -> Result<Vec<f32>, Error> {
    let mut bytes = largest;
    loop {
        match kernels::host::zeroed(bytes / size_of::<f32>(), "the bandwidth test") {
            Err(_) if bytes > SMALLEST => bytes /= 2,
            result => return result,
        }
    }
}

/// Sum of the bits of all values. Integer sums may be taken in any order, so the compiler turns
/// this into vector loads and adds.
fn sum_of_bits(values: &[f32]) -> u32 {
    let mut sums = [[0u32; LANES]; STREAMS];
    let (streams, rest) = values.split_at(values.len() - values.len() % (LANES * STREAMS));
    let len = streams.len() / STREAMS;
    let stream = |i: usize| streams[i * len..][..len].chunks_exact(LANES);
    let all = stream(0).zip(stream(1)).zip(stream(2).zip(stream(3)));
    for ((a, b), (c, d)) in all {
        for (sums, chunk) in sums.iter_mut().zip([a, b, c, d]) {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum = sum.wrapping_add(value.to_bits());
            }
        }
    }
    let rest = rest.iter().map(|value| value.to_bits());
    sums.into_iter().flatten().chain(rest).fold(0, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuOptions;

    #[test]
    fn every_value_is_read() {
        for len in [0, 1, LANES * STREAMS - 1, LANES * STREAMS, 3 * LANES * STREAMS + 5] {
            let values: Vec<f32> = (0..len as u32).map(|i| f32::from_bits(i + 1)).collect();
            assert_eq!(sum_of_bits(&values), (len * (len + 1) / 2) as u32, "{len} values");
        }
    }

    #[test]
    fn a_bandwidth_is_a_positive_number() {
        let mut cpu = Cpu::new(CpuOptions { threads: 2, ..CpuOptions::default() });
        let found = cpu.read_buffer(SMALLEST).unwrap();
        assert!(found.bytes_per_second.is_finite() && found.bytes_per_second > 0.0);
        assert_eq!(found.buffer_bytes, SMALLEST);
        let (copy, launch) = (cpu.copy_buffer(2 * SMALLEST).unwrap(), cpu.launch_time());
        assert!(copy.is_finite() && copy > 0.0 && launch > 0.0);
    }
}
