//! Draws that need only the largest logits of a row, and give the very token that all of it gives.
//!
//! Without penalties and biases a draw depends on the tokens that pass the filters and on nothing
//! else: not even top-p, whose sum is over what top-k left, looks at another. So where it is certain
//! that all of them are in a list of the largest logits, the list is enough. Top-p without top-k and
//! plain draws look at all.

use super::choice::{self, Tokens};
use super::{SamplingError, SamplingParams};
use kernels::head::Best;

/// What decides whether a list of the largest logits is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Short {
    temperature: f32,
    top_k: usize,
    min_p: f32,
}

impl Short {
    /// That of settings which look at the largest logits only.
    pub(crate) fn of(params: &SamplingParams) -> Option<Self> {
        let SamplingParams { temperature, top_k, top_p, min_p, .. } = *params;
        let is_plain = params.repetition_penalty == 1.0
            && params.presence_penalty == 0.0
            && params.frequency_penalty == 0.0
            && params.logit_bias.is_empty();
        let is_cut = temperature == 0.0 || top_k > 0 || (top_p >= 1.0 && min_p > 0.0);
        (is_plain && is_cut).then_some(Self { temperature, top_k, min_p })
    }

    /// Whether all that can be drawn from a row is in its list.
    pub(crate) fn is_enough(&self, best: &Best) -> bool {
        let mut falling = best.logits.clone();
        falling.sort_unstable_by(|a, b| b.total_cmp(a));
        let (Some(&largest), Some(&least)) = (falling.first(), falling.last()) else {
            return false;
        };
        // Which of two zeros is the largest must not matter, as it would to a difference.
        if !largest.is_finite() || largest == 0.0 {
            return false;
        }
        if self.temperature == 0.0 {
            return true;
        }
        // As the filters have it. Rounding never turns the order round, but makes values equal, of
        // which the lower token then goes first: so the first one that is left out must be less.
        let scaled = |x: f32| (x - largest) / self.temperature;
        match self.top_k {
            0 => scaled(least) < self.min_p.ln(),
            k => falling.get(k).is_some_and(|&next| scaled(next) < scaled(falling[k - 1])),
        }
    }
}

impl SamplingParams {
    /// As [`SamplingParams::sample`], from a list that is enough by [`Short::is_enough`].
    pub(crate) fn sample_best(&self, best: &Best, position: usize) -> Result<u32, SamplingError> {
        let chosen = choice::choose(self, Tokens::Subset(&best.tokens), &best.logits, position);
        let token = chosen.and_then(|index| best.tokens.get(index).copied());
        token.ok_or(SamplingError::NothingLeft { position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniform;

    /// The list of a row: what is no less than its 128th.
    fn best(logits: &[f32]) -> Best {
        let mut falling = logits.to_vec();
        falling.sort_unstable_by(|a, b| b.total_cmp(a));
        let is_listed = |token: &u32| logits[*token as usize] >= falling[127];
        let tokens: Vec<u32> = (0..logits.len() as u32).filter(is_listed).collect();
        let logits = tokens.iter().map(|&token| logits[token as usize]).collect();
        Best { tokens, logits }
    }

    fn chains() -> Vec<SamplingParams> {
        let mut all = vec![SamplingParams::default()];
        for temperature in [0.05, 0.7, 1.0, 1e-30] {
            for (top_k, top_p, min_p) in
                [(1, 1.0, 0.0), (20, 0.95, 0.0), (40, 0.5, 0.1), (100, 1.0, 0.0), (0, 1.0, 0.05)]
            {
                all.push(SamplingParams { temperature, top_k, top_p, min_p, ..Default::default() });
            }
        }
        all
    }

    #[test]
    fn a_list_that_is_enough_gives_the_token_that_the_row_gives() {
        let mut enough = 0;
        // The last ones are coarse, with many equal ones around every cut.
        for (row, steps) in [(0, 1e6), (1, 1e6), (2, 1e6), (3, 40.0), (4, 8.0)] {
            let value = |i: u32| {
                let x = (uniform(9, row, i) * steps).round() / steps;
                (18.0 * x.powi(if row == 1 { 1 } else { 6 }) - 2.0) as f32
            };
            let logits: Vec<f32> = (0..5000).map(value).collect();
            let list = best(&logits);
            for params in chains() {
                let short = Short::of(&params).unwrap();
                if !short.is_enough(&list) {
                    continue;
                }
                enough += 1;
                for seed in 0..40 {
                    let params = SamplingParams { seed, ..params.clone() };
                    let expected = params.sample(&mut logits.clone(), &Default::default(), 5);
                    assert_eq!(params.sample_best(&list, 5), expected, "{params:?}");
                }
            }
        }
        assert!(enough > 40, "only {enough} lists were enough");
    }

    #[test]
    fn what_looks_at_all_logits_has_no_list() {
        let of = |change: fn(&mut SamplingParams)| {
            let mut params = SamplingParams { temperature: 1.0, top_k: 20, ..Default::default() };
            change(&mut params);
            Short::of(&params).is_some()
        };
        assert!(of(|_| {}) && of(|p| p.top_p = 0.9) && of(|p| p.temperature = 0.0));
        assert!(!of(|p| p.top_k = 0) && !of(|p| (p.top_k, p.top_p, p.min_p) = (0, 0.9, 0.1)));
        assert!(!of(|p| p.repetition_penalty = 1.1) && !of(|p| p.presence_penalty = 0.1));
        assert!(!of(|p| p.frequency_penalty = 0.1) && !of(|p| p.logit_bias = vec![(1, 0.0)]));
    }

    #[test]
    fn a_list_is_not_enough_where_a_cut_is_not_certain() {
        let short = |top_k, min_p| Short { temperature: 1.0, top_k, min_p };
        let list = |logits: &[f32]| {
            let tokens = (0..logits.len() as u32).collect();
            Best { tokens, logits: logits.to_vec() }
        };
        assert!(short(2, 0.0).is_enough(&list(&[3.0, 2.0, 1.0])));
        for (top_k, min_p, logits) in [
            (3, 0.0, &[3.0, 2.0, 1.0][..]),
            (2, 0.0, &[3.0, 2.0, 2.0]),
            // Equal once they are brought to the largest.
            (1, 0.0, &[1e8, 1e8]),
            (2, 0.0, &[1e8, 0.25, 0.125]),
            (0, 0.5, &[3.0, 2.9]),
            (2, 0.0, &[0.0, -1.0, -2.0]),
            (1, 0.0, &[f32::NEG_INFINITY, f32::NEG_INFINITY]),
            (1, 0.0, &[]),
        ] {
            assert!(!short(top_k, min_p).is_enough(&list(logits)), "{logits:?}");
        }
        assert!(short(0, 0.5).is_enough(&list(&[3.0, 2.9, 1.0])));
    }
}
