//! What a bench read from the disk, of a model whose experts do not all fit in memory, against what
//! the disk gave in the same run.

use std::path::Path;
use std::time::Duration;

use engine::Stores;
use engine::store::{Counters, ReadSpeed, StoreSize, read_speed};
use serde_json::{Value, json};

use super::measure::{Measured, Results, Sample};
use super::text::{number, percent};
use crate::error::Error;
use crate::table::{Side, table};
use crate::units;

/// How long the disk is measured.
const TIME: Duration = Duration::from_millis(1500);

/// The store and the disk under it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    /// Bytes per second of reads of `read_bytes` from all over the model's file, as many at once as
    /// the store has under way.
    pub(super) bytes_per_second: f64,
    pub(super) read_bytes: usize,
    pub(super) threads: usize,
    pub(super) size: StoreSize,
}

/// Measures the disk, if experts are read from it.
///
/// # Errors
/// [`Error::Engine`] when it fails.
pub(super) fn measure(stores: Option<&Stores>, file: &Path) -> Result<Option<Disk>, Error> {
    let Some(stores) = stores else { return Ok(None) };
    let Some(experts) = stores.experts() else { return Ok(None) };
    let (settings, size) = (stores.settings(), experts.size());
    let (read_bytes, threads) = (size.matrix_bytes, settings.threads);
    let how = ReadSpeed { bytes: read_bytes, threads, way: settings.way, time: TIME };
    let speed = read_speed(file, how).map_err(engine::Error::from)?;
    Ok(speed.map(|bytes_per_second| Disk { bytes_per_second, read_bytes, threads, size }))
}

/// The table of what tests read.
pub(super) fn text(results: &Results) -> Option<String> {
    let disk = results.disk.as_ref()?;
    let columns = [
        ("test", Side::Left),
        ("tokens/s", Side::Right),
        ("wanted", Side::Right),
        ("in memory", Side::Right),
        ("foreseen", Side::Right),
        ("in vain", Side::Right),
        ("MB per token", Side::Right),
        ("GB/s", Side::Right),
        ("of disk", Side::Right),
        ("waited", Side::Right),
    ];
    let mut rows = Vec::new();
    for measured in &results.tests {
        let name = measured.test.name();
        let cold = measured.first.iter().map(|first| (format!("{name}, first"), first));
        let warm = median(measured).map(|sample| (name.clone(), sample));
        for (name, sample) in cold.chain(warm) {
            rows.push(row(name, measured, sample, disk));
        }
    }
    let Disk { bytes_per_second, read_bytes, threads, size } = disk;
    Some(format!(
        "Experts: {} of {} slots in memory, {} of all experts; disk: {} GB/s in reads of {}, {threads} at \
         once\n\n{}",
        size.held,
        size.slots,
        percent(size.slots as f64 / size.experts.max(1) as f64),
        number(bytes_per_second / 1e9),
        units::bytes(*read_bytes as u64),
        table(&columns, &rows)
    ))
}

fn row(name: String, measured: &Measured, sample: &Sample, disk: &Disk) -> Vec<String> {
    let (counters, tokens) = (&sample.reads, measured.test.tokens() as f64);
    let share = |part: u64, of: u64| match of {
        0 => String::new(),
        of => percent(part as f64 / of as f64),
    };
    let speed = counters.bandwidth();
    vec![
        name,
        number(tokens / sample.time.as_secs_f64()),
        counters.wanted.to_string(),
        share(counters.held, counters.wanted),
        share(counters.foreseen + counters.under_way, counters.wanted),
        share(counters.in_vain, counters.expected),
        number(counters.bytes as f64 / tokens / 1e6),
        speed.map_or(String::new(), |speed| number(speed / 1e9)),
        speed.map_or(String::new(), |speed| percent(speed / disk.bytes_per_second)),
        percent(counters.waiting.as_secs_f64() / sample.time.as_secs_f64()),
    ]
}

/// The run in the middle.
fn median(measured: &Measured) -> Option<&Sample> {
    let mut by_time: Vec<&Sample> = measured.samples.iter().collect();
    by_time.sort_by_key(|sample| sample.time);
    by_time.get(by_time.len().saturating_sub(1) / 2).copied()
}

/// The same for programs.
pub(super) fn json(results: &Results) -> Value {
    let Some(disk) = &results.disk else { return Value::Null };
    let Disk { bytes_per_second, read_bytes, threads, size } = disk;
    let tests = results.tests.iter().map(|measured| {
        let tokens = measured.test.tokens();
        let sample = |sample: &Sample| json_sample(sample, tokens);
        json!({
            "name": measured.test.name(),
            "first": measured.first.as_ref().map(sample),
            "median": median(measured).map(sample),
        })
    });
    json!({
        "disk": {
            "bytes_per_second": bytes_per_second,
            "read_bytes": read_bytes,
            "threads": threads,
        },
        "experts": {
            "all": size.experts,
            "slots": size.slots,
            "held": size.held,
            "bytes": size.bytes,
        },
        "tests": tests.collect::<Vec<_>>(),
    })
}

fn json_sample(sample: &Sample, tokens: usize) -> Value {
    let Counters { wanted, held, foreseen, under_way, expected, in_vain, bytes, dropped, .. } =
        sample.reads;
    json!({
        "tokens_per_second": tokens as f64 / sample.time.as_secs_f64(),
        "wanted": wanted,
        "held": held,
        "foreseen": foreseen,
        "under_way": under_way,
        "expected": expected,
        "in_vain": in_vain,
        "dropped": dropped,
        "bytes_per_token": bytes as f64 / tokens as f64,
        "bytes_per_second": sample.reads.bandwidth(),
        "waiting_seconds": sample.reads.waiting.as_secs_f64(),
    })
}
