//! Figures from what was written.

use engine::speculation::{SpecMode, SpecStats};

use super::super::stats::{Spread, spread};
use super::measure::{Measured, Results, Text};

/// Figures of a mode at a beginning.
#[derive(Debug)]
pub(super) struct ModeFigures<'a> {
    pub(super) mode: SpecMode,
    pub(super) tokens_per_second: Spread,
    /// Speed over that of `off` in the same round; the middle of all rounds.
    pub(super) times_off: f64,
    pub(super) stats: &'a SpecStats,
}

/// What choosing by itself is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Adaptive {
    /// The fastest of the other modes.
    pub(super) best: SpecMode,
    /// Speed over that of the fastest other mode, and over that of `off`, in the same round.
    pub(super) over_best: f64,
    pub(super) over_off: f64,
}

/// Figures of a beginning.
#[derive(Debug)]
pub(super) struct TextFigures<'a> {
    pub(super) modes: Vec<ModeFigures<'a>>,
    /// None if it was not among the modes.
    pub(super) adaptive: Option<Adaptive>,
}

/// Figures of every beginning.
pub(super) fn figures(results: &Results) -> Vec<TextFigures<'_>> {
    results.texts.iter().filter_map(of_text).collect()
}

/// Of the text's factors over the best other mode and over `off` the geometric means.
pub(super) fn over_all(texts: &[TextFigures<'_>]) -> Option<(f64, f64)> {
    let all: Vec<Adaptive> = texts.iter().map(|text| text.adaptive).collect::<Option<_>>()?;
    let mean = |factor: fn(&Adaptive) -> f64| {
        let logs: f64 = all.iter().map(|adaptive| factor(adaptive).ln()).sum();
        (logs / all.len() as f64).exp()
    };
    (!all.is_empty()).then(|| (mean(|it| it.over_best), mean(|it| it.over_off)))
}

fn of_text(text: &Text) -> Option<TextFigures<'_>> {
    let off = text.modes.iter().find(|measured| measured.mode == SpecMode::Off)?;
    let modes = text.modes.iter().map(|measured| ModeFigures {
        mode: measured.mode,
        tokens_per_second: spread_of(measured.speeds.clone()),
        times_off: times(measured, off),
        stats: &measured.stats,
    });
    Some(TextFigures { modes: modes.collect(), adaptive: adaptive(text, off) })
}

fn adaptive(text: &Text, off: &Measured) -> Option<Adaptive> {
    let is_adaptive = |measured: &&Measured| measured.mode == SpecMode::Adaptive;
    let adaptive = text.modes.iter().find(is_adaptive)?;
    let median = |measured: &&Measured| spread_of(measured.speeds.clone()).median;
    let others = text.modes.iter().filter(|measured| !is_adaptive(measured));
    let best = others.max_by(|a, b| median(a).total_cmp(&median(b)))?;
    let (over_best, over_off) = (times(adaptive, best), times(adaptive, off));
    Some(Adaptive { best: best.mode, over_best, over_off })
}

/// Speed over another mode's, round by round, so that other work on the machine counts little.
fn times(measured: &Measured, other: &Measured) -> f64 {
    let pairs = measured.speeds.iter().zip(&other.speeds);
    spread_of(pairs.map(|(speed, other)| speed / other).collect()).median
}

fn spread_of(mut values: Vec<f64>) -> Spread {
    values.sort_by(|a, b| b.total_cmp(a));
    spread(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mode: SpecMode, speeds: &[f64]) -> Measured {
        Measured { mode, speeds: speeds.to_vec(), stats: SpecStats::default() }
    }

    #[test]
    fn factors_are_of_the_same_round() {
        let two = SpecMode::Mtp { depth: 2 };
        let modes = vec![
            measured(SpecMode::Off, &[10.0, 5.0, 10.0]),
            measured(two, &[20.0, 10.0, 21.0]),
            measured(SpecMode::Adaptive, &[22.0, 11.0, 21.0]),
        ];
        let results = Results { texts: vec![Text { tokens: vec![1], modes }] };
        let all = figures(&results);
        let text = &all[0];
        assert_eq!(
            text.modes.iter().map(|mode| mode.times_off).collect::<Vec<_>>(),
            [1.0, 2.0, 2.2]
        );
        assert_eq!(text.modes[1].tokens_per_second.median, 20.0);
        let adaptive = text.adaptive.unwrap();
        assert_eq!((adaptive.best, adaptive.over_best, adaptive.over_off), (two, 1.1, 2.2));
        let (best, off) = over_all(&all).unwrap();
        // A mean by logarithms.
        assert!((best - 1.1).abs() < 1e-12 && (off - 2.2).abs() < 1e-12);
    }

    #[test]
    fn without_adaptive_there_is_nothing_to_say_of_it() {
        let modes = vec![measured(SpecMode::Off, &[1.0])];
        let results = Results { texts: vec![Text { tokens: vec![1], modes }] };
        let all = figures(&results);
        assert_eq!(all[0].adaptive, None);
        assert_eq!(over_all(&all), None);
    }
}
