//! The report for people.

use lab::kld::{Estimate, PERCENTILES};

use super::Outcome;
use crate::table::{Side, table};
use crate::{stored, units};

/// The whole report.
pub(super) fn report(outcome: &Outcome) -> String {
    let rows: Vec<Vec<String>> = rows(outcome).into_iter().map(|row| row.to_vec()).collect();
    let columns = [("figure", Side::Left), ("value", Side::Right), ("+-", Side::Right)];
    let mut text = head(outcome);
    text += &table(&columns, &rows);
    text += "\nKL: divergence of B from A, in nats; +- is the standard error, positions taken as \
             independent.\n";
    for (side, reads) in outcome.reads.sides() {
        if let Some(line) = stored::line(reads, outcome.passages * outcome.cut.ctx) {
            text += &format!("{side}: {line}\n");
        }
    }
    if let Some((path, keep)) = &outcome.base {
        let [low, high] = outcome.report.bounds;
        let drawn = scientific(outcome.report.kl.value - low);
        let [low, high] = [low, high].map(scientific);
        text += &format!(
            "{} keeps all but {} of the probability at a position token by token. Of the mean \
             KL,\n{drawn} is estimated from drawn tokens; surely it is between {low} and {high}.\n",
            path.display(),
            keep.tail
        );
    }
    text
}

fn head(outcome: &Outcome) -> String {
    let Outcome { a, b, tokens, passages, cut, report, .. } = outcome;
    let unused = tokens - passages * cut.ctx;
    let rest = match unused {
        0 => String::new(),
        _ => format!(", {} at the end not used", units::grouped(unused as u64)),
    };
    let passages = units::count(*passages, "passage");
    let positions = units::grouped(report.positions as u64);
    let (ctx, skip) = (cut.ctx, cut.skip);
    format!(
        "A     {a}\nB     {b}\ntext  {passages} of {ctx} tokens{rest}; all but the first {skip} \
         tokens scored: {positions} positions\n\n"
    )
}

fn rows(outcome: &Outcome) -> Vec<[String; 3]> {
    let report = &outcome.report;
    let with = |name: &str, of: Estimate, show: fn(f64) -> String| {
        [name.to_owned(), show(of.value), error(of.error, show)]
    };
    let mut rows = vec![with("mean KL", report.kl, scientific)];
    for (percent, value) in PERCENTILES.iter().zip(report.percentiles) {
        let name =
            if *percent == 50.0 { "median KL".to_owned() } else { format!("KL {percent} %") };
        rows.push([name, scientific(value), String::new()]);
    }
    rows.push(["largest KL".to_owned(), scientific(report.max), String::new()]);
    rows.push(with("same top token", report.same_top, |share| format!("{:.2} %", share * 100.0)));
    rows.push(with("perplexity of A", report.perplexity_a, |value| format!("{value:.4}")));
    rows.push(with("perplexity of B", report.perplexity_b, |value| format!("{value:.4}")));
    rows.push(with("perplexity of B over A", report.ratio, |value| format!("{value:.5}")));
    rows
}

fn scientific(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.3e}") }
}

/// Nothing for a single position, which has no error.
fn error(value: f64, show: fn(f64) -> String) -> String {
    if value.is_finite() { show(value) } else { String::new() }
}
