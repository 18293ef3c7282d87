//! How likely drafts are accepted, learned from rounds.
//!
//! Two predictors of an MTP draft: the recent rate of its depth, which follows the text quickly,
//! and the rate of drafts of the same depth and confidence, over a longer time. Which of them
//! counts more is decided by how well each predicted lately: confidences say most of it with some
//! models and texts, and nothing with others. Rates of few samples lean on the next coarser one.

use super::mode::MAX_DEPTH;
use super::round::{Round, Source};

/// Upper ends of the confidence buckets but the last.
const CONFIDENCES: [f32; 8] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.82, 0.92, 0.98];
const BUCKETS: usize = CONFIDENCES.len() + 1;
/// Upper ends of the match-length buckets but the last, and what is expected of each at first.
const MATCHES: [usize; 5] = [2, 3, 5, 8, 16];
const MATCH_PRIORS: [f64; MATCHES.len() + 1] = [0.3, 0.45, 0.55, 0.65, 0.8, 0.9];

/// Acceptance of a first draft before any was seen, and of each draft relative to the one before.
const FIRST_PRIOR: f64 = 0.7;
const DECLINE: f64 = 0.95;
/// Samples that a prior counts for.
const PRIOR_WEIGHT: f64 = 2.0;
const CELL_WEIGHT: f64 = 6.0;
const SLOW_WEIGHT: f64 = 10.0;
const MATCH_WEIGHT: f64 = 4.0;
/// What is kept of older samples: per round, per sample of a bucket, per sample of the slow rate,
/// per outcome of the contest of the predictors.
const DEPTH_KEEP: f64 = 0.97;
const CELL_KEEP: f64 = 0.998;
const SLOW_KEEP: f64 = 0.999;
const CONTEST_KEEP: f64 = 0.98;
/// The same of lookups: per sample of a bucket, and per token of text.
const MATCH_KEEP: f64 = 0.97;
const MATCH_FADE: f64 = 0.99983;

/// Everything learned about drafts.
#[derive(Clone, Debug, Default)]
pub(super) struct Acceptance {
    /// Recent drafts by depth.
    depths: [Tally; MAX_DEPTH],
    /// First drafts over a long time: what a text is like before it is known.
    slow: Tally,
    /// By depth and confidence, and by confidence alone.
    cells: [[Tally; BUCKETS]; MAX_DEPTH],
    buckets: [Tally; BUCKETS],
    /// Recent log loss of the rate by depth minus that of the rate by confidence.
    contest: f64,
    /// By match length: first drafts and later ones.
    matches: [[Tally; 2]; MATCH_PRIORS.len()],
}

/// Fading counts.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    hits: f64,
    tries: f64,
}

impl Tally {
    fn fade(&mut self, keep: f64) {
        self.hits *= keep;
        self.tries *= keep;
    }

    fn add(&mut self, hit: bool, keep: f64) {
        self.fade(keep);
        self.hits += f64::from(u8::from(hit));
        self.tries += 1.0;
    }

    /// Leaves at most `tries` samples' worth of evidence.
    fn soften(&mut self, tries: f64) {
        if self.tries > tries {
            self.fade(tries / self.tries);
        }
    }

    /// Share of hits if `prior` counts for `weight` samples.
    fn rate(&self, prior: f64, weight: f64) -> f64 {
        (self.hits + weight * prior) / (self.tries + weight)
    }
}

impl Acceptance {
    /// Learns from a round.
    pub(super) fn observe(&mut self, round: &Round<'_>) {
        let faded = MATCH_FADE.powi(round.tokens() as i32);
        self.matches.iter_mut().flatten().for_each(|tally| tally.fade(faded));
        match round.source {
            Source::Plain => {}
            Source::Lookup => {
                let tallies = &mut self.matches[match_bucket(round.matched)];
                for (i, hit) in round.outcomes().enumerate() {
                    tallies[i.min(1)].add(hit, MATCH_KEEP);
                }
            }
            Source::Mtp => self.observe_mtp(round),
        }
    }

    fn observe_mtp(&mut self, round: &Round<'_>) {
        self.depths.iter_mut().for_each(|tally| tally.fade(DEPTH_KEEP));
        for (i, hit) in round.outcomes().take(MAX_DEPTH).enumerate() {
            if let Some(&confidence) = round.confidences.get(i) {
                self.judge(i, confidence, hit);
                let bucket = confidence_bucket(confidence);
                self.cells[i][bucket].add(hit, CELL_KEEP);
                self.buckets[bucket].add(hit, CELL_KEEP);
            }
            self.depths[i].add(hit, 1.0);
            if i == 0 {
                self.slow.add(hit, SLOW_KEEP);
            }
        }
    }

    /// Notes which predictor did better on this outcome.
    fn judge(&mut self, index: usize, confidence: f32, hit: bool) {
        let loss = |chance: f64| -(if hit { chance } else { 1.0 - chance }).max(0.01).ln();
        let by_depth = loss(self.by_depth(index + 1));
        let by_confidence = loss(self.by_confidence(index, confidence));
        self.contest = CONTEST_KEEP * self.contest + by_depth - by_confidence;
    }

    /// Chance that a draft of `depth` (from 1) is accepted if those before it are, and nothing
    /// else is known of it.
    pub(super) fn by_depth(&self, depth: usize) -> f64 {
        let text = self.slow.rate(FIRST_PRIOR, SLOW_WEIGHT);
        let mut rate = text / DECLINE;
        for tally in &self.depths[..depth.clamp(1, MAX_DEPTH)] {
            rate = tally.rate(rate * DECLINE, PRIOR_WEIGHT);
        }
        rate
    }

    fn by_confidence(&self, index: usize, confidence: f32) -> f64 {
        let bucket = confidence_bucket(confidence);
        let pooled = self.buckets[bucket].rate(self.by_depth(index + 1), CELL_WEIGHT);
        self.cells[index][bucket].rate(pooled, CELL_WEIGHT)
    }

    /// The same chance for a draft that was made with this confidence.
    pub(super) fn of_draft(&self, depth: usize, confidence: f32) -> f64 {
        let index = depth.clamp(1, MAX_DEPTH) - 1;
        let share = 1.0 / (1.0 + (-self.contest).exp());
        let by_depth = self.by_depth(depth);
        by_depth + share * (self.by_confidence(index, confidence) - by_depth)
    }

    /// Chance that draft `depth` (from 1) of a lookup is accepted if those before it are.
    pub(super) fn of_lookup(&self, matched: usize, depth: usize) -> f64 {
        let bucket = match_bucket(matched);
        let [first, later] = &self.matches[bucket];
        let first = first.rate(MATCH_PRIORS[bucket], MATCH_WEIGHT);
        if depth <= 1 {
            return first;
        }
        // Where one token was right, the next is likelier to be.
        later.rate(first.sqrt().min(0.97), MATCH_WEIGHT)
    }

    /// Another text begins, or a part of it that may be unlike: keeps `tries` recent samples.
    pub(super) fn soften(&mut self, tries: f64) {
        self.depths.iter_mut().for_each(|tally| tally.soften(tries));
    }

    /// Another text begins: what was copied in the last one says little.
    pub(super) fn soften_lookups(&mut self, tries: f64) {
        self.matches.iter_mut().flatten().for_each(|tally| tally.soften(tries));
    }
}

fn confidence_bucket(confidence: f32) -> usize {
    CONFIDENCES.iter().filter(|&&end| confidence > end).count()
}

fn match_bucket(matched: usize) -> usize {
    MATCHES.iter().filter(|&&end| matched > end).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mtp(confidences: &[f32], drafted: usize, accepted: usize) -> Round<'_> {
        Round { source: Source::Mtp, confidences, drafted, accepted, ..Round::default() }
    }

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} is not {expected}");
    }

    #[test]
    fn starts_with_the_priors() {
        let acceptance = Acceptance::default();
        close(acceptance.by_depth(1), FIRST_PRIOR, 1e-9);
        close(acceptance.by_depth(3), FIRST_PRIOR * DECLINE * DECLINE, 1e-9);
        close(acceptance.of_draft(2, 0.9), acceptance.by_depth(2), 1e-9);
        close(acceptance.of_lookup(2, 1), 0.3, 1e-9);
        close(acceptance.of_lookup(1000, 1), 0.9, 1e-9);
        assert!(acceptance.of_lookup(2, 2) > acceptance.of_lookup(2, 1));
    }

    #[test]
    fn learns_depths_and_lets_deeper_ones_follow() {
        let mut acceptance = Acceptance::default();
        for i in 0..400 {
            acceptance.observe(&mtp(&[], 2, [2, 0, 1, 2][i % 4]));
        }
        close(acceptance.by_depth(1), 0.75, 0.05);
        close(acceptance.by_depth(2), 0.667, 0.05);
        close(acceptance.by_depth(3), acceptance.by_depth(2) * DECLINE, 1e-9);
    }

    #[test]
    fn trusts_confidences_that_tell() {
        let mut acceptance = Acceptance::default();
        for i in 0..400 {
            let good = i % 5 != 0;
            let confidence = [if good { 0.95 } else { 0.3 }];
            acceptance.observe(&mtp(&confidence, 1, usize::from(good)));
        }
        close(acceptance.by_depth(1), 0.8, 0.05);
        assert!(acceptance.of_draft(1, 0.95) > 0.95, "{acceptance:?}");
        assert!(acceptance.of_draft(1, 0.3) < 0.1, "{acceptance:?}");
        // A confidence never seen says nothing yet.
        close(acceptance.of_draft(1, 0.6), acceptance.by_depth(1), 1e-9);
    }

    #[test]
    fn distrusts_confidences_that_do_not() {
        let mut acceptance = Acceptance::default();
        // Easy and hard text in turn, with the same confidences in both.
        for i in 0..1000 {
            let easy = i / 100 % 2 == 0;
            let hit = if easy { i % 10 != 0 } else { i % 10 == 0 };
            let confidence = [[0.2, 0.5, 0.9][i % 3]];
            acceptance.observe(&mtp(&confidence, 1, usize::from(hit)));
        }
        close(acceptance.of_draft(1, 0.9), 0.1, 0.12);
        close(acceptance.of_draft(1, 0.2), 0.1, 0.12);
    }

    #[test]
    fn drafts_behind_a_miss_are_not_judged() {
        let mut acceptance = Acceptance::default();
        let before = acceptance.by_depth(3);
        for _ in 0..50 {
            acceptance.observe(&mtp(&[0.9; 3], 3, 1));
        }
        assert!(acceptance.by_depth(1) > 0.9);
        assert!(acceptance.by_depth(2) < 0.1);
        assert_eq!(acceptance.depths[2].tries, 0.0);
        assert!(acceptance.by_depth(3) < before);
    }

    #[test]
    fn lookups_are_told_apart_by_match_length() {
        let mut acceptance = Acceptance::default();
        for _ in 0..40 {
            let lookup = Round { source: Source::Lookup, drafted: 4, ..Round::default() };
            acceptance.observe(&Round { matched: 2, accepted: 0, ..lookup });
            acceptance.observe(&Round { matched: 20, accepted: 4, ..lookup });
        }
        assert!(acceptance.of_lookup(2, 1) < 0.1);
        assert!(acceptance.of_lookup(17, 1) > 0.95);
        assert!(acceptance.of_lookup(17, 4) > 0.95);
        close(acceptance.of_lookup(4, 1), 0.55, 1e-9);
        acceptance.soften_lookups(1.0);
        assert!(acceptance.of_lookup(2, 1) > 0.2);
    }

    #[test]
    fn odd_confidences_do_no_harm() {
        let mut acceptance = Acceptance::default();
        for odd in [f32::NAN, -1.0, 0.0, 2.0, f32::INFINITY] {
            acceptance.observe(&mtp(&[odd], 1, 1));
            assert!((0.0..=1.0).contains(&acceptance.of_draft(1, odd)));
        }
        acceptance.observe(&mtp(&[0.5; 20], 20, 20));
        assert!((0.0..=1.0).contains(&acceptance.by_depth(99)));
    }
}
