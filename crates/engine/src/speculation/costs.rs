//! What windows and draft steps take, learned from measured times.
//!
//! The logarithm of a time is a common level plus the shape of its kind of work. The level follows
//! quickly what changes everything at once (a growing context, a throttled clock), so kinds of
//! work that were not seen for long stay comparable; shapes follow slowly. Widths never seen come
//! from a line `a + b T` through those that were.

use super::mode::MAX_DEPTH;
use std::time::Duration;

/// Kinds of work whose times are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A window of so many rows, `1..=MAX_DEPTH + 1`.
    Window(usize),
    /// The first draft step after a round, with the catch-up of that round's tokens.
    FirstDraft,
    /// Any further draft step.
    Draft,
    /// One token of a catch-up after many plain ones, as part of the first draft step.
    CatchUp,
}

const ROWS: usize = MAX_DEPTH + 1;
const KINDS: usize = ROWS + 3;

/// Samples of a kind that only enter a median, since the first ones may be cold.
const WARM_UP: usize = 5;
/// Largest step in log time that one sample may suggest.
const CLIP: f64 = 0.3;
/// A sample longer by this (log) is taken for a pause of the process ...
const PAUSE: f64 = 0.5;
/// ... unless so many came in a row.
const PAUSES: u32 = 3;
/// Share of a surprise that the level takes over.
const LEVEL_GAIN: f64 = 0.1;
/// Share that the shape of a kind takes over, at least; rises with the time it was not seen.
const SHAPE_GAIN: f64 = 0.04;
/// Samples of other kinds until the shape's share is 1.
const STALE: f64 = 1000.0;
/// Samples from which an estimate is trusted, and samples of other kinds after which it is old and
/// after which it is nearly forgotten.
const FEW: usize = 3;
const OLD: u64 = 250;
const FORGOTTEN: u64 = 4000;
/// Cost of one more row, as a share of a window of one row, until two widths were seen.
const ROW_SHARE: f64 = 0.25;
/// Draft steps as a share of a window of one row until one was seen.
const DRAFT_SHARE: f64 = 0.1;

/// Running estimates of all kinds of work, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    level: f64,
    kinds: [Kind; KINDS],
    samples: u64,
    pauses: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    warm_up: [f64; WARM_UP],
    seen: usize,
    shape: f64,
    last_seen: u64,
}

/// How well an estimate is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// On few samples or on very old ones.
    Little,
    /// On old samples.
    Old,
    /// On enough recent ones.
    Fresh,
}

impl Work {
    fn index(self) -> usize {
        match self {
            Self::Window(rows) => rows.clamp(1, ROWS) - 1,
            Self::FirstDraft => ROWS,
            Self::Draft => ROWS + 1,
            Self::CatchUp => ROWS + 2,
        }
    }
}

impl Costs {
    /// Learns from one measured time; times of zero tell nothing.
    pub(super) fn observe(&mut self, work: Work, time: Duration) {
        if time.is_zero() {
            return;
        }
        let log = time.as_secs_f64().ln();
        if self.samples == 0 {
            self.level = log;
        }
        self.samples += 1;
        let age = (self.samples - self.kinds[work.index()].last_seen) as f64;
        let kind = &mut self.kinds[work.index()];
        kind.last_seen = self.samples;
        if kind.seen < WARM_UP {
            kind.warm_up(log - self.level);
            return;
        }
        let surprise = log - self.level - kind.shape;
        self.pauses = if surprise > PAUSE { self.pauses + 1 } else { 0 };
        if (1..=PAUSES).contains(&self.pauses) {
            return;
        }
        let surprise = surprise.clamp(-CLIP, CLIP);
        kind.shape += surprise * (age / STALE).clamp(SHAPE_GAIN, 0.5);
        if matches!(work, Work::Window(_)) {
            self.level += LEVEL_GAIN * surprise;
        }
    }

    /// Samples taken since the work was last seen; `None` if it never was.
    pub(super) fn age(&self, work: Work) -> Option<u64> {
        let kind = &self.kinds[work.index()];
        (kind.seen > 0).then(|| self.samples - kind.last_seen)
    }

    /// Seconds of a window; `None` until any window was seen. Where little is known it is the
    /// least that it may be: what keeps a width from being run would never be put right.
    pub(super) fn window(&self, rows: usize) -> Option<f64> {
        let work = Work::Window(rows);
        let trust = self.trust(work);
        let mut estimate = self.known(work).or_else(|| self.unseen(rows))?;
        if trust < Trust::Fresh {
            let wider = (rows + 1..=ROWS).filter_map(|t| self.known(Work::Window(t)));
            estimate = wider.fold(estimate, f64::min);
        }
        let narrower = Work::Window(rows.saturating_sub(1));
        if trust == Trust::Little && rows > 1 && self.trust(narrower) > Trust::Little {
            estimate = estimate.min(self.known(narrower)?);
        }
        Some(estimate)
    }

    /// A width never seen: between its neighbours, or beyond the last by the slope of all.
    fn unseen(&self, rows: usize) -> Option<f64> {
        let widths = || (1..=ROWS).filter_map(|t| Some((t, self.known(Work::Window(t))?)));
        let below = widths().rfind(|&(t, _)| t < rows);
        let above = widths().find(|&(t, _)| t > rows);
        let line = |(t, seconds): (usize, f64), per_row: f64| {
            (seconds + per_row * (rows as f64 - t as f64)).max(0.1 * seconds)
        };
        if let (Some(below), Some(above)) = (below, above) {
            return Some(line(below, (above.1 - below.1) / (above.0 - below.0) as f64));
        }
        let nearest = below.or(above)?;
        let per_row = slope(widths())
            .unwrap_or_else(|| ROW_SHARE * nearest.1 / (1.0 + ROW_SHARE * (nearest.0 - 1) as f64));
        Some(line(nearest, per_row))
    }

    /// Seconds of the first draft step with a usual catch-up; `None` until any window was seen.
    pub(super) fn first_draft(&self) -> Option<f64> {
        self.known(Work::FirstDraft).or_else(|| self.draft())
    }

    /// Seconds of a further draft step; `None` until any window was seen.
    pub(super) fn draft(&self) -> Option<f64> {
        self.known(Work::Draft)
            .or_else(|| self.known(Work::FirstDraft))
            .or_else(|| Some(DRAFT_SHARE * self.window(1)?))
    }

    /// Seconds per token of a long catch-up; 0 until one was seen.
    pub(super) fn catch_up(&self) -> f64 {
        self.known(Work::CatchUp).unwrap_or(0.0)
    }

    fn trust(&self, work: Work) -> Trust {
        let kind = &self.kinds[work.index()];
        match self.samples - kind.last_seen {
            _ if kind.seen < FEW => Trust::Little,
            age if age > FORGOTTEN => Trust::Little,
            age if age > OLD => Trust::Old,
            _ => Trust::Fresh,
        }
    }

    fn known(&self, work: Work) -> Option<f64> {
        let kind = &self.kinds[work.index()];
        (kind.seen > 0).then(|| (self.level + kind.shape).exp())
    }
}

impl Kind {
    fn warm_up(&mut self, relative: f64) {
        self.warm_up[self.seen] = relative;
        self.seen += 1;
        let mut sorted = self.warm_up;
        let sorted = &mut sorted[..self.seen];
        sorted.sort_by(f64::total_cmp);
        // Of two the lower: what was once that fast was not paused.
        self.shape = sorted[(self.seen - 1) / 2];
    }
}

/// Least-squares slope, not below 0, through at least two widths.
fn slope(widths: impl Iterator<Item = (usize, f64)> + Clone) -> Option<f64> {
    let count = widths.clone().count() as f64;
    if count < 2.0 {
        return None;
    }
    let mean_rows = widths.clone().map(|(t, _)| t as f64).sum::<f64>() / count;
    let mean_time = widths.clone().map(|(_, s)| s).sum::<f64>() / count;
    let covariance: f64 =
        widths.clone().map(|(t, s)| (t as f64 - mean_rows) * (s - mean_time)).sum();
    let variance: f64 = widths.map(|(t, _)| (t as f64 - mean_rows).powi(2)).sum();
    Some((covariance / variance).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    fn observe(costs: &mut Costs, rows: usize, times: impl IntoIterator<Item = f64>) {
        times.into_iter().for_each(|time| costs.observe(Work::Window(rows), ms(time)));
    }

    fn close(seconds: Option<f64>, expected_ms: f64, within: f64) {
        let found = seconds.unwrap() * 1e3;
        assert!((found / expected_ms - 1.0).abs() <= within, "{found} is not {expected_ms}");
    }

    #[test]
    fn knows_nothing_at_first() {
        let mut costs = Costs::default();
        assert_eq!(costs.window(1), None);
        assert_eq!(costs.first_draft(), None);
        assert_eq!(costs.draft(), None);
        assert_eq!(costs.age(Work::Window(1)), None);
        costs.observe(Work::Window(1), Duration::ZERO);
        assert_eq!(costs.window(1), None);
    }

    #[test]
    fn unseen_widths_lie_on_a_line() {
        let mut costs = Costs::default();
        observe(&mut costs, 1, [10.0]);
        close(costs.window(1), 10.0, 1e-9);
        close(costs.window(3), 15.0, 1e-9);
        close(costs.draft(), 1.0, 1e-9);
        observe(&mut costs, 3, [12.0]);
        close(costs.window(2), 11.0, 1e-9);
        close(costs.window(9), 18.0, 1e-9);
        observe(&mut costs, 2, [11.0]);
        close(costs.window(2), 11.0, 1e-9);
        observe(&mut costs, 4, [6.0]);
        assert!(costs.window(9) >= costs.window(4), "a falling line is no reason to draft more");
        costs.observe(Work::FirstDraft, ms(3.0));
        close(costs.first_draft(), 3.0, 1e-9);
        close(costs.draft(), 3.0, 1e-9);
        costs.observe(Work::Draft, ms(2.0));
        close(costs.draft(), 2.0, 1e-9);
    }

    #[test]
    fn cold_starts_and_pauses_do_not_poison() {
        let mut costs = Costs::default();
        observe(&mut costs, 1, [80.0, 10.0, 10.0]);
        close(costs.window(1), 10.0, 1e-9);
        observe(&mut costs, 1, [10.0; 20]);
        observe(&mut costs, 1, [5000.0, 700.0]);
        close(costs.window(1), 10.0, 1e-9);
        for _ in 0..50 {
            observe(&mut costs, 1, [900.0]);
            observe(&mut costs, 1, [10.0; 9]);
        }
        close(costs.window(1), 10.0, 0.01);
    }

    #[test]
    fn follows_a_lasting_change() {
        let mut costs = Costs::default();
        observe(&mut costs, 1, [10.0; 20]);
        observe(&mut costs, 1, [30.0; 60]);
        close(costs.window(1), 30.0, 0.05);
        observe(&mut costs, 1, [10.0; 60]);
        close(costs.window(1), 10.0, 0.05);
    }

    #[test]
    fn what_is_not_seen_follows_the_others() {
        let mut costs = Costs::default();
        for _ in 0..20 {
            observe(&mut costs, 1, [10.0]);
            observe(&mut costs, 3, [14.0]);
            costs.observe(Work::FirstDraft, ms(2.0));
        }
        // The context grows and only windows of three rows are run.
        for i in 0..3000 {
            observe(&mut costs, 3, [14.0 * (1.0 + f64::from(i) / 1000.0)]);
        }
        close(costs.window(3), 56.0, 0.02);
        let unseen = costs.window(1).unwrap() * 1e3;
        assert!((15.0..=45.0).contains(&unseen), "{unseen}");
        assert_eq!(costs.age(Work::Window(1)), Some(3002));
        // A few looks bring it back: what was not seen for long counts more.
        observe(&mut costs, 1, [40.0; 6]);
        close(costs.window(1), 40.0, 0.15);
    }

    #[test]
    fn little_known_widths_are_thought_cheap() {
        let mut costs = Costs::default();
        observe(&mut costs, 2, [19.0]);
        observe(&mut costs, 3, [13.0; 9]);
        close(costs.window(2), 13.0, 1e-9);
        close(costs.window(4), 13.0, 1e-9);
        observe(&mut costs, 2, [19.0; 9]);
        close(costs.window(2), 19.0, 0.02);
        // Known, but not run for long.
        observe(&mut costs, 3, [13.0; OLD as usize + 1]);
        close(costs.window(2), 13.0, 0.02);
        observe(&mut costs, 4, [20.0; 4]);
        close(costs.window(4), 20.0, 1e-9);
        observe(&mut costs, 3, [13.0; FORGOTTEN as usize + 1]);
        close(costs.window(4), 13.0, 0.02);
    }

    #[test]
    fn noise_averages_out() {
        let mut costs = Costs::default();
        for i in 0..400_u32 {
            let noise = f64::from(i * 37 % 21) / 100.0 - 0.1;
            observe(&mut costs, 1, [10.0 * (1.0 + noise)]);
            observe(&mut costs, 2, [13.0 * (1.0 - noise)]);
        }
        close(costs.window(1), 10.0, 0.03);
        close(costs.window(2), 13.0, 0.03);
    }
}
