//! The report as JSON; its fields are documented in `docs/quality.md`.

use lab::kld::{Estimate, Report};
use serde_json::{Value, json};

use super::Outcome;
use engine::store::Counters;

/// The whole report. What is not a number, as the error over a single position, is null.
pub(super) fn report(outcome: &Outcome) -> Value {
    let Outcome { a, b, tokens, passages, cut, base, report, reads } = outcome;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "a": a,
        "b": b,
        "base": base.as_ref().map(|(path, keep)| json!({
            "file": path.display().to_string(),
            "tail": keep.tail,
        })),
        "text": {
            "tokens": tokens,
            "passages": passages,
            "ctx": cut.ctx,
            "skip": cut.skip,
            "positions": report.positions,
        },
        "kl": kl(report),
        "same_top": estimate(report.same_top),
        "perplexity_a": estimate(report.perplexity_a),
        "perplexity_b": estimate(report.perplexity_b),
        "perplexity_ratio": estimate(report.ratio),
        "reads": reads.sides().map(|(side, reads)| side_reads(side, reads)).collect::<Vec<_>>(),
    })
}

fn side_reads(side: &str, reads: &Counters) -> Value {
    json!({
        "side": side,
        "wanted": reads.wanted,
        "held": reads.held,
        "bytes": reads.bytes,
    })
}

fn kl(report: &Report) -> Value {
    let [median, p90, p95, p99, p99_9] = report.percentiles;
    let [low, high] = report.bounds;
    json!({
        "mean": report.kl.value,
        "error": report.kl.error,
        "low": low,
        "high": high,
        "median": median,
        "p90": p90,
        "p95": p95,
        "p99": p99,
        "p99_9": p99_9,
        "max": report.max,
    })
}

fn estimate(of: Estimate) -> Value {
    json!({"value": of.value, "error": of.error})
}
