//! What limits a run, in words.

use super::plan::Kind;
use super::stats::Figures;
use super::text::{number, percent};
use crate::units;

/// From this share of the memory's speed on, memory counts as the limit: between the parts threads
/// wait for each other, so no window gets all of it.
const NEARLY_ALL: f64 = 0.75;

/// Two or three sentences about the test that says most: decoding if it was run.
pub(super) fn in_words(all: &[Figures<'_>], bandwidth: f64) -> String {
    let order = [Kind::Decode, Kind::Verify, Kind::Prompt, Kind::Slots];
    let of = |kind| all.iter().find(|figures| figures.measured.test.kind == kind);
    let Some(figures) = order.into_iter().find_map(of) else { return String::new() };
    let test = figures.measured.test;
    let what = match test.kind {
        Kind::Decode => "Decoding reads".to_owned(),
        Kind::Verify => format!("A window of {} reads", units::count(test.size, "token")),
        Kind::Slots => format!("A window of {} reads", units::count(test.size, "sequence")),
        Kind::Prompt => "A chunk of the prompt reads".to_owned(),
    };
    let per = if test.kind == Kind::Decode { " per token" } else { "" };
    let window = figures.window;
    let share = window.bytes() / bandwidth / window.seconds;
    format!(
        "{what} {}{per}; at the measured {:.1} GB/s that takes {} ms. It took {} ms: {} of the \
         memory's speed. {}",
        units::bytes(window.bytes() as u64),
        bandwidth / 1e9,
        number(window.bytes() / bandwidth * 1e3),
        number(window.seconds * 1e3),
        percent(share),
        verdict(figures, share, bandwidth),
    )
}

fn verdict(figures: &Figures<'_>, share: f64, bandwidth: f64) -> String {
    if share > 1.0 {
        return "That is faster than the memory: much of it stays in the caches.".to_owned();
    }
    if share >= NEARLY_ALL {
        return "The memory is the limit.".to_owned();
    }
    let slowest = figures.parts.iter().max_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds));
    let Some((part, of)) = slowest else { return "Computing is the limit.".to_owned() };
    let speed = match of.speed() {
        Some(speed) => format!(", at {} of the memory's speed", percent(speed / bandwidth)),
        None => String::new(),
    };
    format!(
        "Computing, not memory, is the limit; most of the time, {}, goes to {} {}{speed}.",
        percent(of.seconds / figures.window.seconds),
        part.group.name(),
        part.name,
    )
}
