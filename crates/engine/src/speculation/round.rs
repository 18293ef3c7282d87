//! One round as it went: what policy and statistics learn from.

use std::time::Duration;

/// Where a round's drafts came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// No drafts were asked for.
    #[default]
    Plain,
    /// The model's draft head.
    Mtp,
    /// An earlier occurrence of the latest tokens.
    Lookup,
}

/// One round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round<'a> {
    /// Where the drafts came from.
    pub source: Source,
    /// Of each MTP draft, the probability in (0, 1] that the head gave it; also of drafts that
    /// were made but left out of the window.
    pub confidences: &'a [f32],
    /// Tokens that the lookup matched; 0 for other sources.
    pub matched: usize,
    /// Drafts in the window.
    pub drafted: usize,
    /// Drafts accepted; the round gave one token more.
    pub accepted: usize,
    /// Whether the first draft that was made but left out of the window equals the token drawn in
    /// its place. `None` if none was left out or a draft before it was rejected.
    pub left_out_hit: Option<bool>,
    /// Time of each draft step, the first of which also catches up. Empty if unknown; the adaptive
    /// mode then believes a step to take a tenth of a plain window.
    pub draft_times: &'a [Duration],
    /// Time of the window of `drafted + 1` rows, drawing included.
    pub verify: Duration,
}

impl Round<'_> {
    /// Tokens that the round gave.
    pub fn tokens(&self) -> usize {
        self.accepted.min(self.drafted) + 1
    }

    /// Drafts whose fate is known, in order: the accepted ones, then the one that was not.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = bool> {
        let accepted = self.accepted.min(self.drafted);
        let last = if accepted < self.drafted { Some(false) } else { self.left_out_hit };
        std::iter::repeat_n(true, accepted).chain(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_which_drafts_were_judged() {
        let outcomes = |drafted, accepted, left_out_hit| {
            let round = Round { drafted, accepted, left_out_hit, ..Round::default() };
            (round.outcomes().collect::<Vec<_>>(), round.tokens())
        };
        assert_eq!(outcomes(0, 0, None), (vec![], 1));
        assert_eq!(outcomes(3, 1, None), (vec![true, false], 2));
        assert_eq!(outcomes(2, 2, None), (vec![true, true], 3));
        assert_eq!(outcomes(1, 1, Some(false)), (vec![true, false], 2));
        assert_eq!(outcomes(0, 0, Some(true)), (vec![true], 1));
        assert_eq!(outcomes(1, 0, Some(true)), (vec![false], 1));
    }
}
