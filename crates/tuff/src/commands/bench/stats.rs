//! Figures from samples: speeds with their spread, and what each part of a window takes.

use engine::timed::{Cost, Part};

use super::measure::{Measured, Results, Sample, Sustained, Tenth};
use super::plan::Kind;

/// The middle of several runs and how they differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// The middle one; of an even number the faster of the two in the middle.
    pub(super) median: f64,
    /// The fastest one.
    pub(super) best: f64,
    /// Standard deviation; 0 for a single run.
    pub(super) deviation: f64,
}

/// What a window, or a part of it, takes on average over the windows of one run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Use {
    pub(super) seconds: f64,
    pub(super) weight_bytes: f64,
    pub(super) state_bytes: f64,
}

impl Use {
    fn per_window(cost: &Cost, windows: usize) -> Use {
        let windows = windows as f64;
        Use {
            seconds: cost.time.as_secs_f64() / windows,
            weight_bytes: cost.weight_bytes as f64 / windows,
            state_bytes: cost.state_bytes as f64 / windows,
        }
    }

    /// Bytes of weights and states together.
    pub(super) fn bytes(&self) -> f64 {
        self.weight_bytes + self.state_bytes
    }

    /// Bytes per second, if there are any.
    pub(super) fn speed(&self) -> Option<f64> {
        (self.bytes() > 0.0 && self.seconds > 0.0).then(|| self.bytes() / self.seconds)
    }
}

/// Figures of one test. All but the spread are those of the median run.
#[derive(Debug)]
pub(super) struct Figures<'a> {
    pub(super) measured: &'a Measured,
    pub(super) tokens_per_second: Spread,
    /// A whole window.
    pub(super) window: Use,
    /// Its parts, in the order of the pass.
    pub(super) parts: Vec<(Part, Use)>,
    /// Seconds of a window outside the parts.
    pub(super) outside: f64,
    /// A window's time over that of a window of one token.
    pub(super) times_one: Option<f64>,
}

/// Figures of every test that ran.
pub(super) fn figures(results: &Results) -> Vec<Figures<'_>> {
    let mut all: Vec<Figures<'_>> = results.tests.iter().filter_map(of_test).collect();
    let one = window_of_one(&all);
    for figures in &mut all {
        let is_verify = matches!(figures.measured.test.kind, Kind::Verify | Kind::Slots);
        figures.times_one = one.filter(|_| is_verify).map(|one| figures.window.seconds / one);
    }
    all
}

/// Seconds of a window of one token: of `verify 1`, otherwise of decoding.
fn window_of_one(all: &[Figures<'_>]) -> Option<f64> {
    let tests = || all.iter().map(|figures| (figures.measured.test, figures.window.seconds));
    let verify = tests().find(|(test, _)| test.kind == Kind::Verify && test.size == 1);
    let decode = || tests().find(|(test, _)| test.kind == Kind::Decode);
    verify.or_else(decode).map(|(_, seconds)| seconds)
}

fn of_test(measured: &Measured) -> Option<Figures<'_>> {
    let tokens = measured.test.tokens() as f64;
    let mut by_time: Vec<&Sample> = measured.samples.iter().collect();
    by_time.sort_by_key(|sample| sample.time);
    let median = by_time.get(by_time.len().saturating_sub(1) / 2)?;
    let speeds: Vec<f64> = by_time.iter().map(|run| tokens / run.time.as_secs_f64()).collect();

    let parts = median.profile.parts().iter();
    let parts = parts.map(|(part, cost)| (*part, Use::per_window(cost, measured.windows)));
    let total = median.profile.total();
    let inside = Use::per_window(&total, measured.windows);
    let seconds = median.time.as_secs_f64() / measured.windows as f64;
    Some(Figures {
        measured,
        tokens_per_second: spread(&speeds),
        window: Use { seconds, ..inside },
        parts: parts.collect(),
        outside: seconds - inside.seconds,
        times_one: None,
    })
}

/// Of falling speeds.
pub(super) fn spread(speeds: &[f64]) -> Spread {
    let count = speeds.len();
    let mean = speeds.iter().sum::<f64>() / count as f64;
    let squares: f64 = speeds.iter().map(|speed| (speed - mean).powi(2)).sum();
    let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    Spread { median: speeds[(count - 1) / 2], best: speeds[0], deviation }
}

/// Tokens per second, if there were any.
pub(super) fn speed(tenth: &Tenth) -> Option<f64> {
    (tenth.tokens > 0).then(|| tenth.tokens as f64 / tenth.time.as_secs_f64())
}

/// Tokens per second of the first tenth and of the last one. A tenth without a window is passed
/// over: it is shorter than one, or went by with the tokens before. Without two others there is
/// nothing to compare.
pub(super) fn ends(sustained: &Sustained) -> Option<(f64, f64)> {
    let mut speeds = sustained.tenths.iter().filter_map(speed);
    Some((speeds.next()?, speeds.next_back()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_middle_the_best_and_the_deviation() {
        let found = spread(&[8.0, 4.0, 3.0]);
        assert_eq!((found.median, found.best), (4.0, 8.0));
        // Mean 5, squares 9 + 1 + 4 over 2.
        assert!((found.deviation - 7f64.sqrt()).abs() < 1e-12);
        assert_eq!(spread(&[8.0, 4.0]).median, 8.0);
        assert_eq!(spread(&[3.0]), Spread { median: 3.0, best: 3.0, deviation: 0.0 });
    }

    #[test]
    fn tenths_without_a_window_are_passed_over() {
        let mut tenths = [Tenth::default(); 10];
        let elapsed = Duration::from_secs(10);
        assert_eq!(ends(&Sustained { elapsed, tenths }), None);
        tenths[1] = Tenth { tokens: 4, time: Duration::from_secs(2) };
        assert_eq!(ends(&Sustained { elapsed, tenths }), None, "one tenth alone");
        tenths[8] = Tenth { tokens: 3, time: Duration::from_secs(3) };
        assert_eq!(ends(&Sustained { elapsed, tenths }), Some((2.0, 1.0)));
    }
}
