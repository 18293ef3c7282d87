//! What a report's figures say, in sentences.

use super::plot::{self, intensity, is_f32};
use super::svg::{PLUS_MINUS, cut, fixed, is_usable, signed};
use super::{Effect, Product, Report, WindowProfile};
use crate::audit::{Drop, Found};
use std::fmt::Write;

/// Share of the products' time that the big ones make up.
const BIG: f64 = 0.8;

/// Share of what memory and arithmetic allow from which on they are what limits.
const NEAR: f64 = 0.8;

/// Share of the time from which on the starts of operations are worth a word.
const STARTS: f64 = 0.01;

/// Drop of speed under load that is worth a warning.
const DROP: f64 = 0.03;

/// Standard errors from which on a loss is more than noise.
const ERRORS: f64 = 2.0;

/// The findings in sentences.
pub(super) fn says(report: &Report) -> Vec<String> {
    let mut all: Vec<String> =
        verify_window(&report.windows).and_then(most_time).into_iter().collect();
    if let Some((least, most)) = measured_rows(&report.products) {
        all.extend(nearness(report, least));
        all.extend(limits(report, least));
        all.extend((most > least).then(|| limits(report, most)).flatten());
        all.push(tiles(&report.products));
    } else {
        all.push("No product was measured, so there is nothing to say of speed.".to_owned());
    }
    all.extend(report.effects.iter().filter_map(effect));
    all.extend(report.drop.as_ref().and_then(clock));
    all
}

/// The window that stands for checking drafts: the longest of 2 to 8 rows, or else the first.
pub(super) fn verify_window(windows: &[WindowProfile]) -> Option<&WindowProfile> {
    let verify = windows.iter().filter(|window| (2..=8).contains(&window.rows));
    verify.max_by_key(|window| window.rows).or(windows.first())
}

fn most_time(window: &WindowProfile) -> Option<String> {
    let groups = plot::groups(window);
    let total: f64 = groups.iter().map(|group| group.seconds).sum();
    let first = groups.first().filter(|_| is_usable(total))?;
    let mut text = format!(
        "In a window of {} ({} ms), \"{}\" takes the most time: {} %",
        rows(window.rows),
        fixed(total * 1e3, 2),
        cut(&first.name, 60),
        fixed(first.seconds / total * 100.0, 0)
    );
    if let Some(second) = groups.get(1) {
        let share = fixed(second.seconds / total * 100.0, 0);
        let _ = write!(text, ", then \"{}\" with {share} %", cut(&second.name, 60));
    }
    let part = window.parts.iter().filter(|part| is_usable(part.seconds));
    if let Some(part) = part.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
        let share = fixed(part.seconds / total * 100.0, 0);
        let _ = write!(text, ". The largest single part is {} ({share} %)", cut(&part.name, 60));
    }
    Some(text + ".")
}

pub(super) fn rows(rows: usize) -> String {
    format!("{rows} {}", if rows == 1 { "row" } else { "rows" })
}

/// The fewest and the most rows that a product was timed at.
fn measured_rows(products: &[Product]) -> Option<(usize, usize)> {
    let found = products.iter().flat_map(|product| &product.found);
    let rows: Vec<usize> =
        found.filter(|found| is_usable(found.best)).map(|found| found.rows).collect();
    Some((*rows.iter().min()?, *rows.iter().max()?))
}

/// The products that together take most of the products' time at so many rows, the largest first.
fn big(products: &[Product], rows: usize) -> Vec<(&Product, &Found)> {
    let is_timed =
        |found: &&Found| found.rows == rows && is_usable(found.best) && is_usable(found.speed());
    let mut all: Vec<(&Product, &Found)> = products
        .iter()
        .filter_map(|product| Some((product, product.found.iter().find(is_timed)?)))
        .collect();
    all.sort_by(|a, b| time(b).total_cmp(&time(a)));
    let total: f64 = all.iter().map(time).sum();
    let mut before = 0.0;
    all.retain(|one| {
        let is_needed = before < BIG * total;
        before += time(one);
        is_needed
    });
    all
}

/// Seconds that a window spends in a product.
fn time((product, found): &(&Product, &Found)) -> f64 {
    product.uses as f64 * found.best
}

fn nearness(report: &Report, rows: usize) -> Option<String> {
    let big = big(&report.products, rows);
    let shares = big.iter().map(|(_, found)| report.share_of_memory(found) * 100.0);
    let (least, most) =
        shares.fold((f64::INFINITY, 0.0_f64), |(least, most), s| (least.min(s), most.max(s)));
    let bytes: f64 = big.iter().map(|(product, f)| product.uses as f64 * f.bytes as f64).sum();
    let speed = bytes / big.iter().map(time).sum::<f64>();
    if ![speed, report.device.memory()].iter().all(|speed| is_usable(*speed)) {
        return None;
    }
    let names = big.iter().take(3).map(|(product, _)| roles(product)).collect::<Vec<_>>();
    let more = if big.len() > 3 { ", ..." } else { "" };
    let range = match fixed(least, 0) == fixed(most, 0) {
        true => String::new(),
        false => format!(", between {} and {} % each", fixed(least, 0), fixed(most, 0)),
    };
    Some(format!(
        "At T = {rows} the big products ({}{more}; {:.0} % or more of the products' time) move {} \
         GB/s, which is {} % of the bandwidth of memory{range}.",
        names.join(", "),
        BIG * 100.0,
        fixed(speed / 1e9, 1),
        fixed(speed / report.device.memory() * 100.0, 0),
    ))
}

fn roles(product: &Product) -> String {
    match &product.roles[..] {
        [] => cut(&product.shape, 40),
        [one] => cut(one, 30),
        [first, rest @ ..] => format!("{} and {} more", cut(first, 30), rest.len()),
    }
}

/// What memory and arithmetic allow a product: operations a second.
fn roof(report: &Report, found: &Found) -> (f64, f64) {
    let device = &report.device;
    let ceiling = if is_f32(found) { device.f32_ops } else { device.int8_ops };
    (device.memory() * intensity(found), ceiling)
}

/// Whether memory or arithmetic limits the big products, and how near to it they come.
fn limits(report: &Report, rows: usize) -> Option<String> {
    let big = big(&report.products, rows);
    let (mut ideal, mut by_memory, mut total) = (0.0, 0.0, 0.0);
    for one @ (product, found) in &big {
        let (memory, ceiling) = roof(report, found);
        let least = product.uses as f64 * found.ops as f64 / memory.min(ceiling);
        if ![memory, ceiling, least].iter().all(|value| is_usable(*value)) {
            return None;
        }
        ideal += least;
        by_memory += if memory < ceiling { time(one) } else { 0.0 };
        total += time(one);
    }
    let reached = ideal / total;
    if !is_usable(reached) {
        return None;
    }
    let (limit, why) = match by_memory * 2.0 >= total {
        true => ("memory", "a part of their weights comes from the cache"),
        false => ("arithmetic", "that ceiling is of another product and too low for them"),
    };
    if reached > 1.0 {
        return Some(format!(
            "At T = {rows} the big products are faster than {limit} was measured to allow: {why}."
        ));
    }
    let so_far = format!(
        "At T = {rows} the limit of the big products is mostly {limit}, which alone would need {} \
         % of their time",
        fixed(reached * 100.0, 0)
    );
    Some(match reached >= NEAR {
        true => format!("{so_far}: no tile can gain more than the rest."),
        false => {
            let operations: usize = big.iter().map(|(product, _)| product.uses).sum();
            let launch = report.device.launch;
            let starts = match operations as f64 * launch > STARTS * total {
                true => format!(" and starting operations ({} us each)", fixed(launch * 1e6, 1)),
                false => String::new(),
            };
            format!("{so_far}; the rest goes into other work, such as unpacking formats{starts}.")
        }
    })
}

/// What other tiles gain.
pub(super) fn tiles(products: &[Product]) -> String {
    let measured: usize = products.iter().map(|product| product.found.len()).sum();
    let tried: usize = products.iter().flat_map(|p| &p.found).map(|found| found.tried).sum();
    let gains = plot::gains(products);
    let best = gains.iter().min_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio));
    match best {
        None if tried == 0 => "No other tiles were tried.".to_owned(),
        None => format!(
            "None of {tried} other tiles beats a built-in one by more than the noise: the built-in \
             tiles fit this device."
        ),
        Some((product, found)) => format!(
            "Of {measured} pairs of a product and a number of rows, {} have a better tile than the \
             built-in one ({tried} tried); the largest gain is {} % ({} at T = {}).",
            gains.len(),
            fixed((1.0 - found.ratio) * 100.0, 1),
            roles(product),
            found.rows
        ),
    }
}

fn effect(effect: &Effect) -> Option<String> {
    let change = effect.after / effect.before - 1.0;
    if !is_usable(effect.after / effect.before) {
        return None;
    }
    let noise = fixed(effect.noise * 100.0, 1);
    let window = format!("a whole window of {}", rows(effect.rows));
    let size = format!("{} % {PLUS_MINUS} {noise}", fixed(change.abs() * 100.0, 1));
    Some(match (effect.used, change > ERRORS * effect.noise) {
        (true, _) => {
            format!("The tile table makes {window} faster by {size}, and is used for it.")
        }
        (false, true) => {
            format!("The tile table makes {window} slower by {size}, and is not used for it.")
        }
        (false, false) => format!(
            "In {window} the tile table gains nothing beyond the noise ({} % {PLUS_MINUS} \
             {noise}), and is not used for it.",
            signed(change * 100.0)
        ),
    })
}

fn clock(drop: &Drop) -> Option<String> {
    let change = drop.last / drop.first - 1.0;
    let seconds = fixed(drop.seconds, 0);
    match is_usable(drop.last / drop.first) {
        true if change < -DROP => Some(format!(
            "Under {seconds} s of load the device lost {} % of its speed: short measurements \
             flatter it.",
            fixed(-change * 100.0, 0)
        )),
        true => Some(format!(
            "Under {seconds} s of load the device kept its speed ({} %).",
            signed(change * 100.0)
        )),
        false => None,
    }
}
