//! The figures of a comparison.

use super::Score;
use crate::divergence::mean_and_error;

/// Percentiles that a report has, besides the largest.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// A figure with its standard error, as if positions were independent; NaN for one position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// How far B is from A.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Scored positions.
    pub positions: usize,
    /// Mean divergence in nats.
    pub kl: Estimate,
    /// Between which values the mean divergence on this text lies; both are the mean itself where
    /// nothing was left out.
    pub bounds: [f64; 2],
    /// Divergences that [`PERCENTILES`] of all positions do not exceed.
    pub percentiles: [f64; PERCENTILES.len()],
    /// Largest divergence.
    pub max: f64,
    /// Share of positions with the same likeliest token.
    pub same_top: Estimate,
    /// Perplexity of A.
    pub perplexity_a: Estimate,
    /// Perplexity of B.
    pub perplexity_b: Estimate,
    /// Perplexity of B over that of A; the error is that of the differences position by position,
    /// which is far smaller than those of the two perplexities.
    pub ratio: Estimate,
}

impl Report {
    /// Sums up scores, at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(scores: &[Score]) -> Self {
        let n = scores.len();
        let mut kl: Vec<f64> = scores.iter().map(|score| score.kl).collect();
        let (value, error) = mean_and_error(&kl);
        kl.sort_by(f64::total_cmp);
        let mean = |of: fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / n as f64;
        let exp_of = |of: fn(&Score) -> f64| {
            let (mean, error) = mean_and_error(&scores.iter().map(of).collect::<Vec<_>>());
            Estimate { value: mean.exp(), error: mean.exp() * error }
        };
        let same = scores.iter().filter(|score| score.same_top).count() as f64 / n as f64;
        Self {
            positions: n,
            kl: Estimate { value, error },
            bounds: [mean(|score| score.low), mean(|score| score.high)],
            percentiles: PERCENTILES.map(|percent| kl[rank(n, percent)]),
            max: kl[n - 1],
            same_top: Estimate {
                value: same,
                error: (same * (1.0 - same) / (n as f64 - 1.0)).sqrt(),
            },
            perplexity_a: exp_of(|score| score.surprise[1]),
            perplexity_b: exp_of(|score| score.surprise[0]),
            ratio: exp_of(|score| score.surprise[0] - score.surprise[1]),
        }
    }
}

/// The place, among `n` values that rise, of the least that `percent` of them do not exceed.
fn rank(n: usize, percent: f64) -> usize {
    // Tenths of a percent, so that whole numbers decide.
    (n * (percent * 10.0).round() as usize).div_ceil(1000).max(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(kl: f64) -> Score {
        Score { kl, low: kl / 2.0, high: kl * 2.0, same_top: kl < 900.5, surprise: [2.0, 1.0] }
    }

    #[test]
    fn figures_of_a_thousand_positions() {
        let scores: Vec<Score> = (1..=1000).map(|i| score(f64::from(i))).collect();
        let report = Report::of(&scores);
        assert_eq!(report.percentiles, [500.0, 900.0, 950.0, 990.0, 999.0]);
        assert_eq!((report.max, report.kl.value), (1000.0, 500.5));
        // Variance of 1..n is n (n + 1) / 12.
        assert!((report.kl.error - (1001.0f64 / 12.0).sqrt()).abs() < 1e-9);
        assert_eq!(report.bounds, [250.25, 1001.0]);
        assert_eq!(report.same_top.value, 0.9);
        assert!((report.same_top.error - (0.09f64 / 999.0).sqrt()).abs() < 1e-12);
        let e = 1f64.exp();
        assert_eq!(report.ratio, Estimate { value: e, error: 0.0 });
        assert_eq!((report.perplexity_a.value, report.perplexity_b.value), (e, 2f64.exp()));
    }

    #[test]
    fn one_position_has_no_error() {
        let report = Report::of(&[score(3.0)]);
        assert_eq!((report.percentiles, report.max), ([3.0; 5], 3.0));
        assert!(report.kl.error.is_nan());
    }
}
