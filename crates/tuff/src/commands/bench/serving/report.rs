//! What came of it, for people and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::facts::Facts;
use super::super::stats::{Spread, spread};
use super::super::text::{number, percent};
use super::Results;
use super::measure::{Answered, Turn};
use super::plan::RequestPlan;
use crate::table::{Side, table};

/// The tables.
pub(super) fn text(facts: &Facts, plan: &RequestPlan, results: &Results) -> String {
    let mut text = format!(
        "{} on {}; keys and values in {}.\n",
        facts.file,
        facts.machine.in_words(),
        plan.config.kv.name(),
    );
    if !results.requests.is_empty() {
        let rows: Vec<Vec<String>> =
            results.requests.iter().map(|answered| row(answered, &results.requests)).collect();
        text += &format!("\nDifferent requests at once\n\n{}", table(&COLUMNS, &rows));
        text += "\nEvery answer is the one that the request gets alone, token by token.\n";
    }
    if !results.turns.is_empty() {
        let rows: Vec<Vec<String>> = results.turns.iter().map(turn).collect();
        text += &format!("\nTurns of a conversation\n\n{}", table(&TURNS, &rows));
        text += "\nThe answer to the question is the same in all three ways.\n";
    }
    text
}

const COLUMNS: [(&str, Side); 7] = [
    ("requests", Side::Right),
    ("drafts", Side::Left),
    ("tokens/s", Side::Right),
    ("+-", Side::Right),
    ("x one, off", Side::Right),
    ("first token, s", Side::Right),
    ("accepted", Side::Right),
];

const TURNS: [(&str, Side); 5] = [
    ("turn", Side::Left),
    ("reused", Side::Right),
    ("computed", Side::Right),
    ("first token, s", Side::Right),
    ("+-", Side::Right),
];

fn row(answered: &Answered, all: &[Answered]) -> Vec<String> {
    let Answered { count, mode, speeds, first_token, stats } = answered;
    let spread = sorted(speeds);
    let one = all.first().filter(|first| first.count == 1);
    let times = one.map(|one| format!("{:.2}", spread.median / sorted(&one.speeds).median));
    vec![
        count.to_string(),
        mode.to_string(),
        number(spread.median),
        number(spread.deviation),
        times.unwrap_or_default(),
        number(sorted(first_token).median),
        stats.total().acceptance().map(percent).unwrap_or_default(),
    ]
}

fn turn(turn: &Turn) -> Vec<String> {
    let spread = first_token(turn);
    vec![
        turn.name.to_owned(),
        turn.reused.to_string(),
        turn.prefilled.to_string(),
        number(spread.median),
        number(spread.deviation),
    ]
}

fn first_token(turn: &Turn) -> Spread {
    let seconds: Vec<f64> = turn.first_token.iter().map(Duration::as_secs_f64).collect();
    sorted(&seconds)
}

fn sorted(values: &[f64]) -> Spread {
    let mut values = values.to_vec();
    values.sort_by(|a, b| b.total_cmp(a));
    spread(&values)
}

/// The same as an object; its fields are documented in `docs/cli.md`.
pub(super) fn json(facts: &Facts, plan: &RequestPlan, results: &Results) -> Value {
    let request = |answered: &Answered| {
        let speed = sorted(&answered.speeds);
        json!({
            "requests": answered.count,
            "drafts": answered.mode.to_string(),
            "tokens_per_second": {"median": speed.median, "best": speed.best, "deviation": speed.deviation},
            "first_token_seconds": sorted(&answered.first_token).median,
            "drafted": answered.stats.total().drafted,
            "accepted": answered.stats.total().accepted,
        })
    };
    let turn = |turn: &Turn| {
        json!({
            "turn": turn.name,
            "reused": turn.reused,
            "computed": turn.prefilled,
            "first_token_seconds": first_token(turn).median,
        })
    };
    json!({
        "version": facts.version,
        "model": {"file": facts.file, "file_bytes": facts.file_bytes},
        "backend": facts.machine.backend,
        "isa": facts.machine.isa,
        "threads": facts.machine.threads,
        "settings": {
            "chunk": plan.config.chunk,
            "kv": plan.config.kv.name(),
            "repetitions": plan.repetitions,
        },
        "requests": results.requests.iter().map(request).collect::<Vec<_>>(),
        "turns": results.turns.iter().map(turn).collect::<Vec<_>>(),
    })
}
