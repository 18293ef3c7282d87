//! Which head drafts: the small one over a draft vocabulary, or the full one.
//!
//! A token outside the draft vocabulary can never be drafted, so on a text of other tokens
//! (Chinese, with a list made for English) the small head drafts in vain. [`SubsetGuard`] watches
//! the tokens that the target draws, which it sees whichever head is in use. It turns to the full
//! head when that would be accepted clearly more often, and back when the text is inside the list
//! again.

use std::fmt;

/// What a token counts of the one after it. All together count as much as 32 new ones, and their
/// average is as steady as that of the last 63.
const DECAY: f64 = 1.0 - 1.0 / 32.0;
/// Tokens that have to be seen before the first switch.
const FIRST_EVIDENCE: u32 = 16;
/// Tokens between one switch and the next, so that a mixed text does not flap.
const REST: u32 = 64;
/// The share of tokens outside the list from which the full head is considered.
const MANY_OUTSIDE: f64 = 0.25;
/// Accepted drafts per position that the full head has to add. Below that its larger cost is not
/// worth it, even if many tokens are outside: then drafts fail anyway.
const GAIN: f64 = 0.1;
/// The share of tokens outside the list from which on down the small head is used again.
const FEW_OUTSIDE: f64 = 0.1;

/// The head that drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Head {
    /// Over the draft vocabulary.
    Subset,
    /// Over the whole vocabulary.
    Full,
}

/// A drafted position after the target has drawn its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whether the draft was the target's token.
    pub accepted: bool,
    /// Whether the target's token is in the draft vocabulary.
    pub inside: bool,
}

/// A change of the head, with the figures that led to it. It displays as one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// The head from now on.
    pub head: Head,
    /// Share of recent tokens that are outside the draft vocabulary.
    pub outside: f64,
    /// Share of recent drafts that were accepted.
    pub accepted: f64,
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vocabulary = match self.head {
            Head::Subset => "the draft vocabulary",
            Head::Full => "the full vocabulary",
        };
        let (outside, accepted) = (self.outside * 100.0, self.accepted * 100.0);
        write!(
            f,
            "drafting from {vocabulary}: of the latest tokens {outside:.0} % are outside the draft \
             vocabulary, {accepted:.0} % of drafts were accepted"
        )
    }
}

/// Decides between the heads of one sequence. It depends on nothing but what it was told.
#[derive(Clone, Debug)]
pub struct SubsetGuard {
    head: Head,
    /// Decayed counts: positions, and those of them accepted and inside.
    seen: f64,
    accepted: f64,
    inside: f64,
    /// Positions that have to pass before a switch.
    rest: u32,
}

impl Default for SubsetGuard {
    fn default() -> Self {
        SubsetGuard {
            head: Head::Subset,
            seen: 0.0,
            accepted: 0.0,
            inside: 0.0,
            rest: FIRST_EVIDENCE,
        }
    }
}

impl SubsetGuard {
    /// A guard that begins with the small head.
    pub fn new() -> Self {
        Self::default()
    }

    /// The head to draft with.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Forgets everything, for another text.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a drafted position; gives the switch if it brings one about.
    pub fn observe(&mut self, position: Verified) -> Option<Switch> {
        let count = |sum: &mut f64, yes: bool| *sum = *sum * DECAY + f64::from(u8::from(yes));
        count(&mut self.seen, true);
        count(&mut self.accepted, position.accepted);
        count(&mut self.inside, position.inside);
        self.rest = self.rest.saturating_sub(1);
        let head = self.better_head();
        if self.rest > 0 || head == self.head {
            return None;
        }
        self.head = head;
        self.rest = REST;
        Some(Switch { head, outside: self.outside(), accepted: self.accepted / self.seen })
    }

    /// Share of recent tokens outside the list.
    fn outside(&self) -> f64 {
        1.0 - self.inside / self.seen
    }

    /// What the full head would be accepted more often than the small one, per position: tokens
    /// outside the list as often as those inside. One accepted of two is assumed beforehand.
    fn gain(&self) -> f64 {
        self.outside() * (self.accepted + 1.0) / (self.inside + 2.0)
    }

    fn better_head(&self) -> Head {
        let outside = self.outside();
        match self.head {
            Head::Subset if outside >= MANY_OUTSIDE && self.gain() >= GAIN => Head::Full,
            Head::Full if outside <= FEW_OUTSIDE => Head::Subset,
            head => head,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniform;

    /// A text of which this share of tokens is inside; of those that a head could draft, this share
    /// is accepted.
    #[derive(Clone, Copy)]
    struct Text {
        inside: f64,
        accepted: f64,
        seed: u64,
    }

    const ENGLISH: Text = Text { inside: 0.98, accepted: 0.7, seed: 1 };
    const CHINESE: Text = Text { inside: 0.2, accepted: 0.6, seed: 2 };

    /// Lets a guard watch so many tokens; the switches, with the token that brought each about.
    fn watch(guard: &mut SubsetGuard, text: Text, tokens: u64) -> Vec<(u64, Switch)> {
        let mut switches = Vec::new();
        for token in 0..tokens {
            let inside = uniform(text.seed, token, 0) < text.inside;
            let possible = inside || guard.head() == Head::Full;
            let accepted = possible && uniform(text.seed, token, 1) < text.accepted;
            let before = guard.head();
            let switch = guard.observe(Verified { accepted, inside });
            assert_eq!(switch.is_some(), guard.head() != before, "one report per change");
            if let Some(switch) = switch {
                assert_eq!(switch.head, guard.head());
                switches.push((token, switch));
            }
        }
        switches
    }

    #[test]
    fn english_keeps_the_small_head() {
        for seed in 0..20 {
            let mut guard = SubsetGuard::new();
            assert_eq!(watch(&mut guard, Text { seed, ..ENGLISH }, 2_000), []);
            assert_eq!(guard.head(), Head::Subset);
        }
    }

    #[test]
    fn a_text_outside_the_list_gets_the_full_head_and_english_the_small_one_again() {
        for before in [0, 1, 500] {
            let mut guard = SubsetGuard::new();
            assert_eq!(watch(&mut guard, ENGLISH, before), []);
            let switches = watch(&mut guard, CHINESE, 500);
            let [(token, switch)] = switches[..] else { panic!("{switches:?}") };
            assert!(token < 64 && switch.head == Head::Full && switch.outside >= 0.25, "{token}");
            let switches = watch(&mut guard, ENGLISH, 500);
            let [(token, switch)] = switches[..] else { panic!("{switches:?}") };
            assert!(token < 192 && switch.head == Head::Subset && switch.outside <= 0.1, "{token}");
        }
    }

    #[test]
    fn nothing_inside_at_all_is_enough_from_the_start() {
        let mut guard = SubsetGuard::new();
        let nothing = Text { inside: 0.0, ..CHINESE };
        assert_eq!(watch(&mut guard, nothing, 16)[0].0, 15);
    }

    #[test]
    fn drafts_that_fail_anyway_keep_the_small_head() {
        let mut guard = SubsetGuard::new();
        let hopeless = Text { inside: 0.6, accepted: 0.02, seed: 5 };
        assert_eq!(watch(&mut guard, hopeless, 1_000), []);
    }

    #[test]
    fn a_text_that_alternates_does_not_flap() {
        for period in [1, 4, 16, 64, 100] {
            let mut guard = SubsetGuard::new();
            let (mut switches, mut seen) = (Vec::new(), 0);
            while seen < 6_400 {
                for text in [ENGLISH, CHINESE] {
                    let part = watch(&mut guard, Text { seed: seen, ..text }, period);
                    switches.extend(part.iter().map(|(token, _)| seen + token));
                    seen += period;
                }
            }
            assert!(switches.windows(2).all(|pair| pair[1] - pair[0] >= u64::from(REST)));
            // A mixture within the memory of the guard has one answer.
            assert!(period > 16 || switches.len() <= 1, "period {period}: {switches:?}");
        }
    }

    #[test]
    fn a_reset_guard_is_a_new_one() {
        let mut guard = SubsetGuard::new();
        watch(&mut guard, CHINESE, 100);
        assert_eq!(guard.head(), Head::Full);
        guard.reset();
        assert_eq!(guard.head(), Head::Subset);
        let again = watch(&mut guard, CHINESE, 100);
        assert_eq!(again, watch(&mut SubsetGuard::new(), CHINESE, 100));
    }

    #[test]
    fn a_switch_is_one_line() {
        let switch = Switch { head: Head::Full, outside: 0.384, accepted: 0.212 };
        assert_eq!(
            switch.to_string(),
            "drafting from the full vocabulary: of the latest tokens 38 % are outside the draft \
             vocabulary, 21 % of drafts were accepted"
        );
    }
}
