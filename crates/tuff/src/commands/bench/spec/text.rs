//! The comparison for people: a table for each text.

use std::fmt::Write;
use std::time::Duration;

use engine::speculation::DepthStats;
use model::tokenizer::SkipSpecial;

use super::super::text::{number, percent};
use super::figures::{Adaptive, ModeFigures, TextFigures, figures, over_all};
use super::measure::Results;
use super::plan::SpecPlan;
use crate::table::{Side, table};
use crate::units;

/// Characters of beginning and text that are shown.
const SHOWN: usize = 60;

/// All tables, and what they come to.
pub(crate) fn report(plan: &SpecPlan, results: &Results) -> String {
    let all = figures(results);
    let mut text = String::new();
    for mode in &plan.skipped {
        let _ = writeln!(text, "\nLeft out: {mode}, as the model has no drafting block (--mtp).");
    }
    for (place, figures) in all.iter().enumerate() {
        let _ = write!(text, "\n{}\n{}", head(plan, results, place), speeds(figures));
        if let Some(adaptive) = &figures.adaptive {
            let _ = writeln!(text, "\n{}", worth(adaptive));
        }
    }
    let _ = writeln!(text, "\n{}", closing(plan, &all));
    text
}

fn head(plan: &SpecPlan, results: &Results, place: usize) -> String {
    let (prompt, text) = (&plan.prompts[place], &results.texts[place]);
    let written = plan.tokenizer.decode_text(&text.tokens, SkipSpecial::No).unwrap_or_default();
    format!(
        "Drafts, {}: {} after {}\n- text: {}\n",
        prompt.name.escape_debug(),
        units::count(text.tokens.len(), "token"),
        excerpt(&prompt.text, Side::Right),
        excerpt(&written, Side::Left),
    )
}

/// One end of a text in quotes, on one line.
fn excerpt(text: &str, end: Side) -> String {
    let length = text.chars().count();
    let (skipped, more) = match end {
        _ if length <= SHOWN => (0, ["", ""]),
        Side::Left => (0, ["", "..."]),
        Side::Right => (length - SHOWN, ["...", ""]),
    };
    let part = text.chars().skip(skipped).take(SHOWN).flat_map(char::escape_debug);
    format!("{}\"{}\"{}", more[0], part.collect::<String>(), more[1])
}

fn speeds(figures: &TextFigures<'_>) -> String {
    let columns = [
        ("drafts", Side::Left),
        ("tokens/s", Side::Right),
        ("best", Side::Right),
        ("+-", Side::Right),
        ("x off", Side::Right),
        ("tokens a round", Side::Right),
        ("accepted", Side::Right),
        ("by depth, %", Side::Left),
        ("draft ms", Side::Right),
        ("catch-up ms", Side::Right),
        ("verify ms", Side::Right),
        ("plain ms", Side::Right),
    ];
    table(&columns, &figures.modes.iter().map(row).collect::<Vec<_>>())
}

fn row(figures: &ModeFigures<'_>) -> Vec<String> {
    let (spread, stats) = (&figures.tokens_per_second, figures.stats);
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    let millis = |time: Option<Duration>| or_empty(time.map(|t| number(t.as_secs_f64() * 1e3)));
    let depths = stats.depths.iter().filter_map(DepthStats::cumulative);
    let depths: Vec<String> = depths.map(|share| format!("{:.0}", share * 100.0)).collect();
    vec![
        figures.mode.to_string(),
        number(spread.median),
        number(spread.best),
        number(spread.deviation),
        format!("{:.2}", figures.times_off),
        or_empty(stats.tokens_per_round().map(|tokens| format!("{tokens:.2}"))),
        or_empty(stats.total().acceptance().map(percent)),
        depths.join(" "),
        millis(stats.draft_steps.mean()),
        millis(stats.catch_up.mean()),
        millis(stats.verify.mean()),
        millis(stats.plain_steps.mean()),
    ]
}

fn worth(adaptive: &Adaptive) -> String {
    let Adaptive { best, over_best, over_off } = *adaptive;
    format!(
        "Adaptive: {} against {best}, the best of the others; {} against off.",
        change(over_best),
        change(over_off)
    )
}

fn closing(plan: &SpecPlan, all: &[TextFigures<'_>]) -> String {
    let (modes, texts) = (plan.modes.len(), all.len());
    let same = format!(
        "Each text came out the same, token by token, in all of its {}.",
        units::count(modes, "mode")
    );
    match over_all(all) {
        Some((best, off)) if texts > 1 => format!(
            "{same}\nAdaptive over all {texts} texts: {} against the best other mode of each, {} \
             against off (geometric means).",
            change(best),
            change(off)
        ),
        _ => same,
    }
}

/// A factor as a change in percent.
fn change(factor: f64) -> String {
    format!("{:+.1} %", (factor - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_the_end_that_says_least() {
        assert_eq!(excerpt("a\nb", Side::Left), "\"a\\nb\"");
        let long = format!("{}{}", "a".repeat(SHOWN), "b".repeat(SHOWN));
        assert_eq!(excerpt(&long, Side::Left), format!("\"{}\"...", "a".repeat(SHOWN)));
        assert_eq!(excerpt(&long, Side::Right), format!("...\"{}\"", "b".repeat(SHOWN)));
    }

    #[test]
    fn factors_are_changes() {
        assert_eq!([1.0, 1.256, 0.5].map(change), ["+0.0 %", "+25.6 %", "-50.0 %"]);
    }
}
