//! What the device can do: bandwidth, arithmetic, launches, and whether its clock drops.

use crate::timing::measure;
use crate::{Budget, Matmul, OpCase};
use gguf::TensorType;
use kernels::tiles::Tunable;
use kernels::{Activations, Error};
use std::time::{Duration, Instant};

/// A device and its speeds.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// What measured times hold for.
    pub key: String,
    /// Bytes read a second.
    pub read: f64,
    /// Bytes read and written a second by a copy.
    pub copy: f64,
    /// Seconds of an operation without work.
    pub launch: f64,
    /// Multiplications and additions a second with 8-bit activations, weights in the cache.
    pub int8_ops: f64,
    /// The same with f32 activations and weights.
    pub f32_ops: f64,
}

/// Speed under load that lasts.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Drop {
    /// Seconds of load.
    pub seconds: f64,
    /// Operations a second in the first tenth.
    pub first: f64,
    /// In the last tenth.
    pub last: f64,
    /// In each tenth.
    pub tenths: Vec<f64>,
}

impl Device {
    /// Bytes a second that memory is known to give, by reading or by copying: what shares are of.
    /// A device may copy faster than any product of ours reads.
    pub fn memory(&self) -> f64 {
        if self.copy > self.read { self.copy } else { self.read }
    }
}

/// Weight rows and window rows of products that are bound by arithmetic: some keep a processor
/// busy, a GPU wants many.
const HOT: [(usize, usize); 4] = [(64, 64), (512, 128), (2048, 256), (8192, 512)];

/// What a larger product must gain for a still larger one to be tried.
const HOT_GAIN: f64 = 1.05;

/// Longest call that a larger one is tried after.
const HOT_MICROSECONDS: f64 = 2e4;

/// A matrix that stays in the cache, times rows enough to be bound by arithmetic.
fn hot(ty: TensorType, activations: Activations, (n_out, rows): (usize, usize)) -> OpCase {
    OpCase::Matmul(Matmul { ty, n_in: 2560, n_out, rows, activations })
}

/// The product that the device does the most operations a second with, and how many.
fn hottest<B: Tunable>(
    backend: &mut B,
    (ty, activations): (TensorType, Activations),
) -> Result<(OpCase, f64), Error> {
    let budget = Budget { time: Duration::from_millis(200), cold_bytes: 0 };
    let mut best: Option<(OpCase, f64)> = None;
    for size in HOT {
        let case = hot(ty, activations, size);
        let measured = case.bench(backend, &budget)?;
        let ops = measured.cost.ops as f64 / measured.best_us * 1e6;
        let before = best.as_ref().map_or(0.0, |(_, ops)| *ops);
        if ops > before {
            best = Some((case, ops));
        }
        if ops < HOT_GAIN * before || measured.best_us > HOT_MICROSECONDS {
            break;
        }
    }
    Ok(best.unwrap_or_else(|| (hot(ty, activations, HOT[0]), 0.0)))
}

/// Measures the device.
///
/// # Errors
/// Memory that is short, or a fault of the device.
pub fn device<B: Tunable>(backend: &mut B) -> Result<Device, Error> {
    let speeds = backend.speeds()?;
    let (_, int8_ops) = hottest(backend, (TensorType::Q8_0, Activations::Int8))?;
    let (_, f32_ops) = hottest(backend, (TensorType::F32, Activations::F32))?;
    let (read, copy, launch) = (speeds.read, speeds.copy, speeds.launch);
    Ok(Device { key: backend.device_key(), read, copy, launch, int8_ops, f32_ops })
}

/// Keeps the device busy with arithmetic for `seconds`; `go_on` is asked now and then and may end
/// it early, when there is no result.
///
/// # Errors
/// Memory that is short, or a fault of the device.
pub fn clock_drop<B: Tunable>(
    backend: &mut B,
    seconds: f64,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Drop>, Error> {
    let (case, _) = hottest(backend, (TensorType::Q8_0, Activations::Int8))?;
    let started = Instant::now();
    let mut tenths = Vec::with_capacity(10);
    for tenth in 1..=10 {
        let left = seconds * f64::from(tenth) / 10.0 - started.elapsed().as_secs_f64();
        let time = Duration::from_secs_f64(left.max(0.01));
        let mut call = case.prepared(backend, 0)?;
        let begin = Instant::now();
        let budget = Budget { time, cold_bytes: 0 };
        let measured = measure(backend, &budget, case.cost(), &mut call)?;
        let spent = begin.elapsed().as_secs_f64();
        tenths.push((measured.calls as u64 * measured.cost.ops) as f64 / spent);
        if !go_on(started.elapsed().as_secs_f64()) {
            return Ok(None);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Some(Drop { seconds, first: tenths[0], last: tenths[9], tenths }))
}
