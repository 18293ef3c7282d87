//! What caches of experts would read: the report for people, and as JSON.

use lab::routes::FORECASTS;
use lab::routes::caches::{
    CACHE_SHARES, CacheFigures, CacheWindow, Cold, Counts, Policy, PolicyFigures,
};
use serde_json::{Value, json};

use super::text::{long_name, section};
use crate::table::Side;
use crate::units;

/// All tables.
pub(super) fn report(figures: &CacheFigures) -> String {
    let mut parts: Vec<String> =
        figures.windows.iter().map(|window| misses(figures, window)).collect();
    parts.push(cold(figures));
    if let Some(single) = figures.windows.first() {
        parts.push(ahead(figures, single));
    }
    parts.concat()
}

/// The columns of sizes, behind one with this name.
fn columns(figures: &CacheFigures, first: &str) -> Vec<String> {
    let sizes = CACHE_SHARES.iter().zip(figures.slots);
    let sizes = sizes.map(|(&share, slots)| format!("{} ({slots})", units::percent(share)));
    [first.to_owned()].into_iter().chain(sizes).collect()
}

/// A table of sizes.
fn sizes(title: &str, columns: &[String], first: Side, rows: &[Vec<String>]) -> String {
    let side = |place| if place == 0 { first } else { Side::Right };
    let columns: Vec<_> =
        columns.iter().enumerate().map(|(place, name)| (name.as_str(), side(place))).collect();
    section(title, &columns, rows)
}

/// A row of sizes.
fn row(first: String, counts: &[Counts], cell: impl Fn(&Counts) -> String) -> Vec<String> {
    [first].into_iter().chain(counts.iter().map(cell)).collect()
}

fn missed(counts: &Counts) -> String {
    units::percent(counts.share(counts.missed))
}

/// Experts that are wanted for each token.
fn wanted(window: &CacheWindow) -> f64 {
    window.policies.first().map_or(0.0, |figures| {
        let counts = &figures.counts[0];
        counts.per_token(counts.wanted)
    })
}

/// Whether a policy reads before it must.
fn reads_ahead(policy: Policy) -> bool {
    matches!(policy, Policy::Ahead { .. })
}

/// Misses of the policies that do not read ahead.
fn misses(figures: &CacheFigures, window: &CacheWindow) -> String {
    let policies = window.policies.iter().filter(|figures| !reads_ahead(figures.policy));
    let rows = policies.map(|figures| row(figures.policy.name().into(), &figures.counts, missed));
    let wanted = wanted(window);
    let tokens = units::count(window.tokens, "token");
    let title = format!(
        "Experts missed by a cache of so many, windows of {tokens} ({wanted:.2} experts of all \
         layers wanted for each token)"
    );
    sizes(&title, &columns(figures, "policy"), Side::Left, &rows.collect::<Vec<_>>())
}

fn cold(figures: &CacheFigures) -> String {
    let line = |cold: &Cold| row(cold.tokens.to_string(), &cold.counts, missed);
    let rows: Vec<_> = figures.cold.iter().map(line).collect();
    let columns = columns(figures, "first tokens");
    sizes("Experts missed by LRU from an empty cache", &columns, Side::Right, &rows)
}

/// Reading ahead: what is missed, read and read for nothing.
fn ahead(figures: &CacheFigures, window: &CacheWindow) -> String {
    let policies: Vec<_> = window
        .policies
        .iter()
        .filter_map(|figures| Some((ahead_name(figures.policy)?, &figures.counts)))
        .collect();
    if policies.iter().all(|(name, _)| name == NOTHING) {
        return String::new();
    }
    let columns = columns(figures, "read ahead");
    let table = |title: &str, number: fn(&Counts) -> u64| {
        let cell = |counts: &Counts| format!("{:.2}", counts.per_token(number(counts)));
        let rows = policies.iter().map(|(name, counts)| row(name.clone(), &counts[..], cell));
        sizes(title, &columns, Side::Left, &rows.collect::<Vec<_>>())
    };
    let tables = [
        table("LRU, reading ahead: experts missed, for each token", |counts| counts.missed),
        table("LRU, reading ahead: experts read in all, for each token", Counts::reads),
        table("LRU, reading ahead: experts read for nothing, for each token", |counts| {
            counts.wrong
        }),
    ];
    tables.concat()
}

/// What LRU alone reads ahead.
const NOTHING: &str = "nothing";

/// What a policy of recency reads ahead; none for other policies.
fn ahead_name(policy: Policy) -> Option<String> {
    match policy {
        Policy::Lru => Some(NOTHING.to_owned()),
        Policy::Ahead { forecast, count } => {
            Some(format!("{count}, by {}", long_name(FORECASTS[forecast])))
        }
        _ => None,
    }
}

/// All figures as JSON.
pub(super) fn as_json(figures: &CacheFigures) -> Value {
    let sizes = CACHE_SHARES.iter().zip(figures.slots);
    let sizes = sizes.map(|(share, slots)| json!({"share": share, "slots": slots}));
    let windows = figures.windows.iter().map(|window| {
        let policies = window.policies.iter().map(policy_json).collect::<Vec<_>>();
        json!({"tokens": window.tokens, "wanted": wanted(window), "policies": policies})
    });
    let cold = figures
        .cold
        .iter()
        .map(|cold| json!({"tokens": cold.tokens, "missed": cold.counts.map(missed_per_token)}));
    json!({
        "sizes": sizes.collect::<Vec<_>>(),
        "windows": windows.collect::<Vec<_>>(),
        "cold": cold.collect::<Vec<_>>(),
    })
}

fn policy_json(figures: &PolicyFigures) -> Value {
    let (forecast, count) = match figures.policy {
        Policy::Ahead { forecast, count } => (Some(FORECASTS[forecast]), count),
        _ => (None, 0),
    };
    let per_token =
        |number: fn(&Counts) -> u64| figures.counts.map(|counts| counts.per_token(number(&counts)));
    json!({
        "name": figures.policy.name(),
        "forecast": forecast,
        "count": count,
        "missed": per_token(|counts| counts.missed),
        "read": per_token(Counts::reads),
        "wrong": per_token(|counts| counts.wrong),
    })
}

fn missed_per_token(counts: Counts) -> f64 {
    counts.per_token(counts.missed)
}
