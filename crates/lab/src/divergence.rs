//! How far two computations of the same model are apart, judged by what they predict.
//!
//! Single logits say little: where two choices are nearly even, a change far below anything that
//! matters turns one over. What counts is the distribution over the next token: its
//! Kullback-Leibler divergence from the expected one, in nats.

/// One position of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// Kullback-Leibler divergence of the found from the expected distribution, in nats.
    pub kl: f64,
    /// Whether both have the same likeliest token.
    pub same_top: bool,
    /// Largest difference of two logits.
    pub largest: f32,
    /// Negative logarithm of the probability of the token that follows, found and expected.
    pub surprise: Option<[f64; 2]>,
}

impl Divergence {
    /// Compares logits `[vocab]`; `next` is the token that follows, if one does.
    ///
    /// # Panics
    /// If the lengths differ or `next` is not below them.
    pub fn of(found: &[f32], expected: &[f32], next: Option<u32>) -> Self {
        assert_eq!(found.len(), expected.len());
        let [p, q] = [found, expected].map(log_softmax);
        let kl = q.iter().zip(&p).map(|(q, p)| q.exp() * (q - p)).sum();
        let largest = found.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        let surprise = next.map(|next| [-p[next as usize], -q[next as usize]]);
        Self { kl, same_top: top(found) == top(expected), largest, surprise }
    }
}

/// Many positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of positions.
    pub positions: usize,
    /// Mean divergence, in nats.
    pub mean: f64,
    /// Its standard error, as if positions were independent.
    pub mean_error: f64,
    /// The divergence that 99 of 100 positions stay below.
    pub p99: f64,
    /// Largest divergence.
    pub max: f64,
    /// Share of positions with the same likeliest token.
    pub same_top: f64,
    /// Largest difference of two logits.
    pub largest: f32,
    /// Perplexity of what was expected; NaN without a position that has a next token.
    pub perplexity: f64,
    /// Found perplexity over expected perplexity.
    pub ratio: f64,
    /// Standard error of the ratio, from the differences position by position.
    pub ratio_error: f64,
}

impl Summary {
    /// Sums up positions, at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(all: &[Divergence]) -> Self {
        let n = all.len() as f64;
        let mut kl: Vec<f64> = all.iter().map(|d| d.kl).collect();
        let (mean, mean_error) = mean_and_error(&kl);
        kl.sort_by(f64::total_cmp);
        let surprises: Vec<[f64; 2]> = all.iter().filter_map(|d| d.surprise).collect();
        let differences: Vec<f64> = surprises.iter().map(|[p, q]| p - q).collect();
        let expected: Vec<f64> = surprises.iter().map(|[_, q]| *q).collect();
        let (difference, error) = mean_and_error(&differences);
        Self {
            positions: all.len(),
            mean,
            mean_error,
            p99: kl[(all.len() * 99).div_ceil(100) - 1],
            max: kl[all.len() - 1],
            same_top: all.iter().filter(|d| d.same_top).count() as f64 / n,
            largest: all.iter().fold(0f32, |m, d| m.max(d.largest)),
            perplexity: mean_and_error(&expected).0.exp(),
            ratio: difference.exp(),
            ratio_error: difference.exp() * error,
        }
    }
}

/// The mean and its standard error; NaN for no values.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let total: f64 = row.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
    row.iter().map(|&x| f64::from(x) - largest - total.ln()).collect()
}

/// The first of the largest values.
fn top(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokens_by_hand() {
        // Odds of 3 to 1 expected, even ones found.
        let found = Divergence::of(&[5.0, 5.0], &[3f32.ln(), 0.0], Some(0));
        let kl = 0.75 * (0.75f64 / 0.5).ln() + 0.25 * (0.25f64 / 0.5).ln();
        assert!((found.kl - kl).abs() < 1e-7, "{}", found.kl);
        assert!(found.same_top && found.largest == 5.0);
        let [p, q] = found.surprise.unwrap_or_default();
        assert!((p - 2f64.ln()).abs() < 1e-12 && (q + 0.75f64.ln()).abs() < 1e-7);
    }

    #[test]
    fn summary_of_positions() {
        let at = |i: u32| Divergence {
            kl: f64::from(i),
            same_top: !i.is_multiple_of(4),
            largest: i as f32,
            surprise: Some([2.0, 1.0]),
        };
        let all: Vec<Divergence> = (1..=200).map(at).collect();
        let found = Summary::of(&all);
        assert_eq!((found.mean, found.p99, found.max), (100.5, 198.0, 200.0));
        assert_eq!((found.same_top, found.largest), (0.75, 200.0));
        assert_eq!((found.perplexity, found.ratio), (1f64.exp(), 1f64.exp()));
        assert_eq!(found.ratio_error, 0.0);
    }
}
