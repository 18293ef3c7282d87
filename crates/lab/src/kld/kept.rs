//! What a base file keeps of one position, and what can be said from that.
//!
//! Write p for the expected distribution (A), q for the found one (B). The likeliest tokens of p
//! are kept one by one, with their logits as they were; the others, the *tail*, have together the
//! mass P under p and Q under q. Then
//!
//! ```text
//! KL(p, q) = sum over kept of p ln(p/q)  +  P ln(P/Q)  +  P * KL(p in the tail, q in the tail)
//!            \______________ low ______________________/    \____________ gap _______________/
//! ```
//!
//! which is the chain rule, so `low` is never above the divergence and the error of leaving the gap
//! out is P times a divergence. The gap cannot be known from P alone, so two more things are kept:
//!
//! * the sum of p ln p over the tail: since q is known when the two are compared, and no token of
//!   the tail has less than the least q there, `gap <= sum p ln p - P ln P + P ln(Q / least q)`.
//!   That is `high`; it holds whatever p is in the tail.
//! * some tokens of the tail, drawn by p: the mean over them of `r - 1 - ln r`, with r = (q/Q) /
//!   (p/P), is never negative and expects to KL(p in the tail, q in the tail), as r expects to 1.
//!   So `kl = low + P * mean` is right on average, never below `low`, and what chance adds to it is
//!   part of the spread over positions that the standard error tells.

use super::softmax::{Scale, Softmax};
use super::{Keep, Score};
use engine::uniform;

/// One position of a base file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) scale: Scale,
    /// Logit of the token that follows.
    pub(crate) next: f32,
    /// Likeliest tokens by rising id, with their logits: at least one.
    pub(crate) tokens: Vec<(u32, f32)>,
    pub(crate) tail: Option<Tail>,
}

/// The tokens that are not kept one by one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tail {
    /// P, their probability.
    pub(crate) mass: f64,
    /// Sum of p ln p.
    pub(crate) p_ln_p: f64,
    /// Some of them with their logits, drawn by their probability, by rising id.
    pub(crate) drawn: Vec<(u32, f32)>,
}

impl Kept {
    /// Keeps what `keep` says of a position before token `next`; `number` decides what is drawn.
    pub(crate) fn of(row: &Softmax, next: u32, keep: &Keep, number: u64) -> Self {
        let logits = row.logits();
        let tokens: Vec<(u32, f32)> =
            likeliest(row, keep.tail).into_iter().map(|id| (id, logits[id as usize])).collect();
        let tail = Tail::of(row, &tokens, keep.draws, number);
        Self { scale: row.scale(), next: logits[next as usize], tokens, tail }
    }

    fn ids(&self) -> impl Iterator<Item = usize> {
        self.tokens.iter().map(|(id, _)| *id as usize)
    }

    /// The first of the likeliest tokens.
    fn top(&self) -> usize {
        let first = self.tokens.iter().find(|(_, logit)| *logit == self.scale.largest);
        first.map_or(0, |(id, _)| *id as usize)
    }

    /// Compares with what was found, before token `next`.
    pub(crate) fn compare(&self, found: &Softmax, next: u32) -> Score {
        let of_token = |&(id, logit): &(u32, f32)| {
            let ln_p = self.scale.ln_p(logit);
            ln_p.exp() * (ln_p - found.ln_p(id as usize))
        };
        let kept: f64 = self.tokens.iter().map(of_token).sum();
        let (low, gap, most) = match &self.tail {
            None => (kept, 0.0, 0.0),
            Some(tail) => {
                // Logits that are hundreds apart leave nothing of q in f64.
                let mass = found.mass_without(self.ids()).max(f64::MIN_POSITIVE);
                let lumped = tail.mass * (tail.mass.ln() - mass.ln());
                let gap = tail.gap(&self.scale, found, mass);
                (kept + lumped, gap, tail.most_gap(found, mass, self.ids()))
            }
        };
        Score {
            kl: (low + gap).max(0.0),
            low: low.max(0.0),
            high: (low + most).max(0.0),
            same_top: self.top() == found.top(),
            surprise: [-found.ln_p(next as usize), -self.scale.ln_p(self.next)],
        }
    }
}

impl Tail {
    /// Of all tokens but `kept`; none if nothing is left.
    fn of(row: &Softmax, kept: &[(u32, f32)], draws: u32, number: u64) -> Option<Self> {
        let ids = || kept.iter().map(|(id, _)| *id as usize);
        let mass = row.mass_without(ids());
        if mass <= 0.0 {
            return None;
        }
        let p_ln_p = row.tail(ids()).map(|id| row.p(id) * row.ln_p(id)).sum();
        // Systematic sampling: one random number places all draws, evenly in the tail's mass.
        let start = uniform(0, number, 0);
        let (mut drawn, mut before, mut last) = (Vec::with_capacity(draws as usize), 0.0, 0);
        let target = |n: usize| (n as f64 + start) / f64::from(draws) * mass;
        for id in row.tail(ids()).filter(|&id| row.p(id) > 0.0) {
            (before, last) = (before + row.p(id), id);
            while drawn.len() < draws as usize && target(drawn.len()) < before {
                drawn.push((id as u32, row.logits()[id]));
            }
        }
        // What rounding left over.
        drawn.resize(draws as usize, (last as u32, row.logits()[last]));
        Some(Self { mass, p_ln_p, drawn })
    }

    /// The divergence within the tail by what was drawn, times the mass.
    fn gap(&self, scale: &Scale, found: &Softmax, mass: f64) -> f64 {
        let of_token = |&(id, logit): &(u32, f32)| {
            let ln_r = (found.ln_p(id as usize) - mass.ln()) - (scale.ln_p(logit) - self.mass.ln());
            ln_r.exp_m1() - ln_r
        };
        let total: f64 = self.drawn.iter().map(of_token).sum();
        if self.drawn.is_empty() { 0.0 } else { self.mass * total / self.drawn.len() as f64 }
    }

    /// What it is at most, whatever the tail is.
    fn most_gap(&self, found: &Softmax, mass: f64, kept: impl Iterator<Item = usize>) -> f64 {
        let least = found.tail(kept).map(|id| found.ln_p(id)).fold(f64::INFINITY, f64::min);
        let tail = self.mass;
        (self.p_ln_p - tail * tail.ln() + tail * (mass.ln() - least)).max(0.0)
    }
}

/// The fewest tokens, the likeliest ones, that leave at most `tail`, by rising id. Of equally
/// likely tokens the lower ids come first.
fn likeliest(row: &Softmax, tail: f64) -> Vec<u32> {
    let mut keys: Vec<u64> = (0..).zip(row.logits()).map(|(id, &logit)| key(logit, id)).collect();
    // Few are mostly enough: sorting all would cost more than all the rest.
    let mut sorted = 64;
    loop {
        sorted = keys.len().min(sorted * 4);
        if sorted < keys.len() {
            keys.select_nth_unstable(sorted);
        }
        keys[..sorted].sort_unstable();
        let mut rest = 1.0;
        let enough = keys[..sorted].iter().position(|&key| {
            rest -= row.p(id(key) as usize);
            rest <= tail
        });
        let count = match enough {
            Some(last) => last + 1,
            None if sorted == keys.len() => sorted,
            None => continue,
        };
        let mut ids: Vec<u32> = keys[..count].iter().map(|&key| id(key)).collect();
        ids.sort_unstable();
        return ids;
    }
}

/// Keys rise with falling logits, and of equal ones with the id.
fn key(logit: f32, id: u32) -> u64 {
    let bits = logit.to_bits();
    // Of negative numbers larger bits are less; flipped like this, bits rise with the number.
    let rising = if logit.is_sign_negative() { !bits } else { bits | 1 << 31 };
    u64::from(!rising) << 32 | u64::from(id)
}

fn id(key: u64) -> u32 {
    key as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::divergence::Divergence;

    const VOCAB: usize = 3000;

    /// Logits as peaked as those of a language model, and some near them.
    fn rows(seed: u64, noise: f32) -> [Softmax; 2] {
        let mut random = Random::new(seed);
        let expected: Vec<f32> = (0..VOCAB).map(|_| random.unit().powi(5) * 12.0).collect();
        let found = expected.iter().map(|x| x + random.unit() * noise).collect::<Vec<_>>();
        [expected, found].map(|logits| {
            let mut row = Softmax::default();
            row.set(&logits);
            row
        })
    }

    #[test]
    fn the_truth_is_within_the_bounds_and_the_tail_as_small_as_asked() {
        for seed in 1..40 {
            let [expected, found] = rows(seed, 0.4);
            let truth = Divergence::of(found.logits(), expected.logits(), Some(7));
            for tail in [0.0, 1e-5, 1e-3, 0.05, 0.9] {
                let keep = Keep { tail, draws: 8 };
                let kept = Kept::of(&expected, 7, &keep, seed);
                let score = kept.compare(&found, 7);
                assert!(kept.tail.as_ref().is_none_or(|t| t.mass <= tail + 1e-12));
                // Sums in other orders: rounding of f64.
                let slack = 1e-12;
                assert!(score.low <= truth.kl + slack && truth.kl <= score.high + slack, "{tail}");
                assert!(score.low <= score.kl);
                assert_eq!(score.same_top, truth.same_top);
                assert_eq!(Some(score.surprise), truth.surprise);
                if tail == 0.0 {
                    assert!(kept.tail.is_none() && score.low == score.high);
                    assert!((score.kl - truth.kl).abs() < slack);
                }
            }
        }
    }

    #[test]
    fn what_is_drawn_makes_the_estimate_right_on_average() {
        // Much is left to the tail, so that the gap is most of the divergence.
        let keep = Keep { tail: 0.5, draws: 4 };
        let (mut estimated, mut exact, mut low) = (0.0, 0.0, 0.0);
        for seed in 1..200 {
            let [expected, found] = rows(seed, 0.4);
            let score = Kept::of(&expected, 7, &keep, seed).compare(&found, 7);
            estimated += score.kl;
            low += score.low;
            exact += Divergence::of(found.logits(), expected.logits(), None).kl;
        }
        assert!(low < 0.8 * exact, "{low} {exact}");
        // 800 draws of a skew quantity: their mean is some 4 % off.
        assert!((estimated / exact - 1.0).abs() < 0.1, "{estimated} {exact}");
    }

    #[test]
    fn a_distribution_diverges_from_itself_by_exactly_nothing() {
        for (seed, tail) in [(1, 1e-4), (2, 0.3), (3, 0.99), (4, 0.0)] {
            let [row, _] = rows(seed, 0.0);
            let score = Kept::of(&row, 7, &Keep { tail, draws: 8 }, seed).compare(&row, 7);
            assert!(score.kl == 0.0 && score.low == 0.0 && score.same_top);
            assert!(score.surprise[0] == score.surprise[1]);
        }
    }

    #[test]
    fn equal_logits_keep_the_lower_ids() {
        let mut row = Softmax::default();
        row.set(&[1.0; 10]);
        assert_eq!(likeliest(&row, 0.61), [0, 1, 2, 3]);
        assert_eq!(likeliest(&row, 1.0), [0]);
        let keys = [2.0, 1.0, 0.0, -1.0, -2.0].map(|logit| key(logit, 3));
        assert!(keys.is_sorted() && keys.iter().all(|&key| id(key) == 3));
    }

    #[test]
    fn logits_hundreds_apart_stay_finite() {
        let mut rows = [Softmax::default(), Softmax::default()];
        rows[0].set(&[0.0, -1.0, -2.0]);
        rows[1].set(&[2000.0, -2000.0, -2000.0]);
        let score = Kept::of(&rows[0], 0, &Keep { tail: 0.3, draws: 2 }, 0).compare(&rows[1], 0);
        assert!(score.low.is_finite() && score.high.is_finite() && score.low > 100.0);
    }
}
