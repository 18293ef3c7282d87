//! The report for people.

use std::fmt::Write;

use gpu::KernelTime;

use super::Parts;
use super::facts::Facts;
use super::limit;
use super::measure::{Kernels, Results, Sustained};
use super::plan::{Kind, Plan};
use super::reads;
use super::stats::{self, Figures, Use};
use crate::table::{Side, table};
use crate::units;

/// Parts below this share of a window stand in one line together.
const SMALL: f64 = 0.005;

/// What was measured, and on what.
pub(super) fn head(facts: &Facts, plan: &Plan, results: Option<&Results>) -> String {
    let mut text = machine(facts, plan);
    if let Some(results) = results {
        let gb = results.bandwidth.bytes_per_second / 1e9;
        let bytes = units::bytes(results.bandwidth.buffer_bytes as u64);
        let how = match facts.machine.threads {
            0 => "read and written by a copy".to_owned(),
            count => format!("read by {} from {bytes}", units::count(count, "thread")),
        };
        let _ = writeln!(text, "- memory: {gb:.1} GB/s {how}");
    }
    let depth = match plan.depth {
        depth if depth > 0 && results.is_some() => {
            format!("; decode and verify after {}", units::count(depth, "token"))
        }
        _ => String::new(),
    };
    let runs = units::count(plan.repetitions, "run");
    let _ = writeln!(text, "- {runs} of each test after a warm-up, seed {}{depth}", plan.seed);
    text
}

/// The tests of windows.
pub(super) fn report(results: &Results, wanted: Parts) -> String {
    let bandwidth = results.bandwidth.bytes_per_second;
    let all = stats::figures(results);
    let mut text = format!("\n{}", speeds(&all, bandwidth));
    if let Some(reads) = reads::text(results) {
        let _ = write!(text, "\n{reads}");
    }
    if let Some(sustained) = &results.sustained {
        let _ = writeln!(text, "\n{}", sustained_line(sustained));
    }
    for (place, figures) in all.iter().enumerate() {
        if !figures.parts.is_empty() && is_wanted(wanted, &all[place..]) {
            let _ = write!(text, "\n{}", parts(figures, bandwidth));
        }
    }
    for kernels in results.kernels.iter().filter(|_| wanted != Parts::None) {
        let _ = write!(text, "\n{}", kernel_times(kernels, &all));
    }
    // Where bytes are not counted nothing is known of what limits.
    if all.iter().any(|figures| figures.window.bytes() > 0.0) {
        let _ = writeln!(text, "\n{}", limit::in_words(&all, bandwidth));
    }
    text
}

/// The kernels of a test on the device, the slowest first.
fn kernel_times(kernels: &Kernels, all: &[Figures<'_>]) -> String {
    let windows = kernels.windows as f64;
    let mut by_time: Vec<_> = kernels.times.iter().collect();
    by_time.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    let busy: f64 = by_time.iter().map(|(_, time)| time.seconds).sum();
    let window = all.iter().find(|figures| figures.measured.test == kernels.test);
    let window = window.map_or(0.0, |figures| figures.window.seconds);
    let mut text = format!(
        "{}: {} kernels per window of {} ms; the host records and submits for {} ms and waits for {} ms; timed \
         one by one the kernels take {} ms\n\n",
        kernels.test.name(),
        number(kernels.calls as f64 / windows),
        number(window * 1e3),
        number(kernels.recording / windows * 1e3),
        number(kernels.waited / windows * 1e3),
        number(busy / windows * 1e3),
    );
    let columns = [
        ("kernel", Side::Left),
        ("calls", Side::Right),
        ("us each", Side::Right),
        ("ms per window", Side::Right),
        ("share", Side::Right),
    ];
    let row = |(name, time): &(&String, &KernelTime)| {
        vec![
            (*name).clone(),
            number(time.calls as f64 / windows),
            number(time.seconds / time.calls.max(1) as f64 * 1e6),
            number(time.seconds / windows * 1e3),
            percent(time.seconds / busy),
        ]
    };
    text += &table(&columns, &by_time.iter().map(row).collect::<Vec<_>>());
    text
}

/// Whether the parts of the first of these tests are to be shown.
fn is_wanted(wanted: Parts, tests: &[Figures<'_>]) -> bool {
    let mut kinds = tests.iter().map(|figures| figures.measured.test.kind);
    match wanted {
        Parts::All => true,
        Parts::None => false,
        Parts::Main => kinds.next().is_some_and(|kind| kinds.all(|other| other != kind)),
    }
}

fn machine(facts: &Facts, plan: &Plan) -> String {
    let formats: Vec<String> = facts
        .formats
        .iter()
        .map(|format| {
            format!("{} {}", format.ty, percent(format.bytes as f64 / facts.weight_bytes as f64))
        })
        .collect();
    let machine = &facts.machine;
    format!(
        "tuff {}\n\
         - model: {}, {}, {} weights\n\
         - formats by bytes: {}\n\
         - backend: {}, chunks of {}, keys and values in {}\n",
        facts.version,
        facts.file.escape_debug(),
        units::bytes(facts.file_bytes),
        units::weights(facts.weights),
        formats.join(", "),
        machine.in_words(),
        units::count(plan.config.chunk, "token"),
        plan.config.kv,
    )
}

fn speeds(all: &[Figures<'_>], bandwidth: f64) -> String {
    let columns = [
        ("test", Side::Left),
        ("tokens/s", Side::Right),
        ("best", Side::Right),
        ("+-", Side::Right),
        ("ms per window", Side::Right),
        ("x one token", Side::Right),
        ("MB per window", Side::Right),
        ("GB/s", Side::Right),
        ("of memory", Side::Right),
    ];
    let row = |figures: &Figures<'_>| {
        let spread = &figures.tokens_per_second;
        let [_, _, _, speed, share] = use_cells(&figures.window, bandwidth);
        vec![
            figures.measured.test.name(),
            number(spread.median),
            number(spread.best),
            number(spread.deviation),
            number(figures.window.seconds * 1e3),
            figures.times_one.map_or(String::new(), |times| format!("{times:.2}")),
            if figures.window.bytes() > 0.0 {
                number(figures.window.bytes() / 1e6)
            } else {
                String::new()
            },
            speed,
            share,
        ]
    };
    table(&columns, &all.iter().map(row).collect::<Vec<_>>())
}

fn sustained_line(sustained: &Sustained) -> String {
    let tokens: usize = sustained.tenths.iter().map(|tenth| tenth.tokens).sum();
    let seconds = sustained.elapsed.as_secs_f64();
    let head = format!("Sustained decode: {tokens} tokens in {seconds:.1} s");
    match stats::ends(sustained) {
        None => format!("{head}; too short to compare beginning and end."),
        Some((first, last)) => format!(
            "{head}; first tenth {} tokens/s, last tenth {} tokens/s ({:+.1} %).",
            number(first),
            number(last),
            (last / first - 1.0) * 100.0
        ),
    }
}

fn parts(figures: &Figures<'_>, bandwidth: f64) -> String {
    let window = figures.window;
    let row = |group: &str, name: &str, of: &Use| {
        let [ms, weights, state, speed, share] = use_cells(of, bandwidth);
        let part = percent(of.seconds / window.seconds);
        vec![group.to_owned(), name.to_owned(), ms, part, weights, state, speed, share]
    };
    let (mut rows, mut rest, mut count) = (Vec::new(), Use::default(), 0);
    let mut by_time: Vec<_> = figures.parts.iter().collect();
    by_time.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    for (part, of) in by_time {
        if of.seconds >= SMALL * window.seconds {
            rows.push(row(part.group.name(), part.name, of));
        } else {
            count += 1;
            rest.seconds += of.seconds;
            rest.weight_bytes += of.weight_bytes;
            rest.state_bytes += of.state_bytes;
        }
    }
    if count > 0 {
        rows.push(row("", &units::count(count, "smaller part"), &rest));
    }
    rows.push(row("", "outside", &Use { seconds: figures.outside, ..Use::default() }));
    rows.push(row("", "window", &window));
    let columns = [
        ("group", Side::Left),
        ("part", Side::Left),
        ("ms", Side::Right),
        ("share", Side::Right),
        ("MB weights", Side::Right),
        ("MB state", Side::Right),
        ("GB/s", Side::Right),
        ("of memory", Side::Right),
    ];
    let test = figures.measured.test;
    let what = match test.kind {
        Kind::Prompt => format!("a chunk of prompt {}, on average", test.size),
        Kind::Decode => "a decoded token".to_owned(),
        Kind::Verify => format!("a window of {}", units::count(test.size, "token")),
        Kind::Slots => format!("a window of {}", units::count(test.size, "sequence")),
    };
    format!("Where the time goes: {what}\n\n{}", table(&columns, &rows))
}

/// Milliseconds, megabytes of weights and of state, speed, and its share of the memory's.
fn use_cells(of: &Use, bandwidth: f64) -> [String; 5] {
    let megabytes = |bytes: f64| if bytes > 0.0 { number(bytes / 1e6) } else { String::new() };
    let speed = of.speed();
    [
        number(of.seconds * 1e3),
        megabytes(of.weight_bytes),
        megabytes(of.state_bytes),
        speed.map_or(String::new(), |speed| format!("{:.1}", speed / 1e9)),
        speed.map_or(String::new(), |speed| percent(speed / bandwidth)),
    ]
}

/// With as many decimals as are worth reading.
pub(super) fn number(value: f64) -> String {
    let decimals = match value {
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}
