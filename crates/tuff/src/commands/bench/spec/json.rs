//! The comparison as JSON; its fields are documented in `docs/cli.md`.

use std::time::Duration;

use engine::speculation::{DepthStats, SourceStats, TimeStats};
use serde_json::{Value, json};

use super::figures::{Adaptive, ModeFigures, TextFigures, figures, over_all};
use super::measure::Results;
use super::plan::SpecPlan;

/// All texts with all modes.
pub(crate) fn report(plan: &SpecPlan, results: &Results) -> Value {
    let all = figures(results);
    let skipped: Vec<String> = plan.skipped.iter().map(ToString::to_string).collect();
    let over = over_all(&all);
    let texts = all.iter().enumerate().map(|(place, figures)| text(plan, place, figures));
    json!({
        "tokens": plan.tokens,
        "temperature": plan.sampling.temperature,
        "skipped": skipped,
        // Texts that differ end the command.
        "same_text": true,
        "texts": texts.collect::<Vec<_>>(),
        "times_best_other": over.map(|(best, _)| best),
        "times_off": over.map(|(_, off)| off),
    })
}

fn text(plan: &SpecPlan, place: usize, figures: &TextFigures<'_>) -> Value {
    let prompt = &plan.prompts[place];
    json!({
        "name": prompt.name,
        "prompt": prompt.text,
        "prompt_tokens": prompt.ids.len(),
        "modes": figures.modes.iter().map(mode).collect::<Vec<_>>(),
        "adaptive": figures.adaptive.as_ref().map(adaptive),
    })
}

fn adaptive(adaptive: &Adaptive) -> Value {
    json!({
        "best_other": adaptive.best.to_string(),
        "times_best_other": adaptive.over_best,
        "times_off": adaptive.over_off,
    })
}

fn mode(figures: &ModeFigures<'_>) -> Value {
    let (spread, stats) = (&figures.tokens_per_second, figures.stats);
    let total = stats.total();
    let depths = stats.depths.iter().filter_map(DepthStats::cumulative);
    json!({
        "mode": figures.mode.to_string(),
        "tokens_per_second": {
            "median": spread.median,
            "best": spread.best,
            "deviation": spread.deviation,
        },
        "times_off": figures.times_off,
        "rounds": rounds(total, [stats.plain, stats.mtp, stats.lookup]),
        "tokens_per_round": stats.tokens_per_round(),
        "drafted": total.drafted,
        "accepted": total.accepted,
        "acceptance": total.acceptance(),
        "acceptance_by_depth": depths.collect::<Vec<_>>(),
        "seconds": {
            "draft": seconds(stats.draft_steps),
            "catch_up": seconds(stats.catch_up),
            "verify": seconds(stats.verify),
            "plain": seconds(stats.plain_steps),
        },
    })
}

fn rounds(total: SourceStats, [plain, mtp, lookup]: [SourceStats; 3]) -> Value {
    json!({
        "all": total.rounds,
        "plain": plain.rounds,
        "mtp": mtp.rounds,
        "lookup": lookup.rounds,
    })
}

fn seconds(times: TimeStats) -> Option<f64> {
    times.mean().as_ref().map(Duration::as_secs_f64)
}
