//! Decides before each round where its drafts come from and how many there are.
//!
//! The fixed modes do what they are told; [`SpecMode::Adaptive`] is in `adaptive.rs`. The order of
//! calls in a round: [`Policy::plan`]; for MTP drafts [`Policy::deeper`] after each, then
//! [`Policy::keep`]; [`Policy::observe`].

use super::adaptive::Adaptive;
use super::mode::{MAX_DEPTH, SpecMode};
use super::round::Round;

/// Match length from which `mtp+lookup` prefers the lookup: shorter ones are often chance.
const LONG_MATCH: usize = 4;

/// What could be done in the next round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Whether the draft head could draft now.
    pub mtp: bool,
    /// Tokens that the lookup matched, if it found a match.
    pub lookup: Option<usize>,
    /// Most drafts that make sense, by token limit and context.
    pub room: usize,
}

/// What to do in the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A window of the drawn token alone.
    Plain,
    /// Drafts of the head.
    Mtp {
        /// Most of them, at least one; [`Policy::deeper`] may stop earlier.
        depth: usize,
    },
    /// Drafts from the lookup.
    Lookup {
        /// How many of them, at least one.
        depth: usize,
    },
}

/// The decisions of a mode, and what they are learned from. Keep it as long as the model is
/// loaded: measured times stay true from one text to the next.
#[derive(Clone, Debug)]
pub struct Policy {
    mode: SpecMode,
    has_mtp: bool,
    /// Depth of the last plan.
    depth: usize,
    adaptive: Adaptive,
}

impl Policy {
    /// A policy that knows nothing yet. Without a draft head (`has_mtp`), the modes do what they
    /// can without.
    pub fn new(mode: SpecMode, has_mtp: bool) -> Self {
        Self { mode, has_mtp, depth: 0, adaptive: Adaptive::default() }
    }

    /// The mode it was made with.
    pub fn mode(&self) -> SpecMode {
        self.mode
    }

    /// Whether it may ever plan MTP drafts, so that the head has to be kept up to date.
    pub fn uses_mtp(&self) -> bool {
        let mode = !matches!(self.mode, SpecMode::Off | SpecMode::Lookup { .. });
        mode && self.has_mtp
    }

    /// Whether it may ever plan lookups, so that the text has to be indexed.
    pub fn uses_lookup(&self) -> bool {
        !matches!(self.mode, SpecMode::Off | SpecMode::Mtp { .. })
    }

    /// Another text begins, on which acceptance may differ.
    pub fn new_text(&mut self) {
        self.adaptive.new_text();
    }

    /// What to do in the next round. Depths never exceed the offer's room.
    pub fn plan(&mut self, offer: Offer) -> Plan {
        let offer = Offer {
            mtp: offer.mtp && self.uses_mtp(),
            lookup: offer.lookup.filter(|_| self.uses_lookup()),
            room: offer.room.min(MAX_DEPTH),
        };
        let plan = match self.mode {
            _ if offer.room == 0 => Plan::Plain,
            SpecMode::Off => Plan::Plain,
            SpecMode::Mtp { depth }
            | SpecMode::Lookup { depth }
            | SpecMode::MtpLookup { depth } => fixed(offer, depth.clamp(1, offer.room)),
            SpecMode::Adaptive => self.adaptive.plan(offer),
        };
        self.depth = match plan {
            Plan::Plain => 0,
            Plan::Mtp { depth } | Plan::Lookup { depth } => depth,
        };
        plan
    }

    /// Whether one more MTP draft pays after those made in this round, of which these are the
    /// confidences.
    pub fn deeper(&self, confidences: &[f32]) -> bool {
        let room = confidences.len() < self.depth;
        room && (self.mode != SpecMode::Adaptive || self.adaptive.deeper(confidences, self.depth))
    }

    /// How many of the drafts made in this round pay their row in the window; the others, from
    /// the last on, are better left out. Who leaves them out has to report
    /// [`Round::left_out_hit`]; to verify all drafts is right too, only slower.
    pub fn keep(&self, confidences: &[f32]) -> usize {
        match self.mode {
            SpecMode::Adaptive => self.adaptive.keep(confidences),
            _ => confidences.len(),
        }
    }

    /// Learns from a round; every round, plain ones too.
    pub fn observe(&mut self, round: &Round<'_>) {
        if self.mode == SpecMode::Adaptive {
            self.adaptive.observe(round);
        }
    }
}

/// Exactly `depth` drafts, if there is a source.
fn fixed(offer: Offer, depth: usize) -> Plan {
    match offer.lookup {
        Some(matched) if !offer.mtp || matched >= LONG_MATCH => Plan::Lookup { depth },
        _ if offer.mtp => Plan::Mtp { depth },
        _ => Plan::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Offer = Offer { mtp: true, lookup: Some(20), room: 8 };

    fn plan(mode: &str, has_mtp: bool, offer: Offer) -> Plan {
        Policy::new(mode.parse().unwrap(), has_mtp).plan(offer)
    }

    #[test]
    fn fixed_modes_do_their_depth() {
        assert_eq!(plan("off", true, ALL), Plan::Plain);
        assert_eq!(plan("mtp", true, ALL), Plan::Mtp { depth: 2 });
        assert_eq!(plan("mtp:8", true, Offer { room: 3, ..ALL }), Plan::Mtp { depth: 3 });
        assert_eq!(plan("lookup", true, ALL), Plan::Lookup { depth: 8 });
        assert_eq!(plan("lookup", true, Offer { lookup: None, ..ALL }), Plan::Plain);
        assert_eq!(plan("mtp+lookup:4", true, ALL), Plan::Lookup { depth: 4 });
        let short = Offer { lookup: Some(3), ..ALL };
        assert_eq!(plan("mtp+lookup:4", true, short), Plan::Mtp { depth: 4 });
        let head_busy = Offer { mtp: false, ..short };
        assert_eq!(plan("mtp+lookup:4", true, head_busy), Plan::Lookup { depth: 4 });
        assert_eq!(plan("mtp:4", true, head_busy), Plan::Plain);
        for mode in ["off", "mtp", "lookup", "mtp+lookup", "adaptive"] {
            assert_eq!(plan(mode, true, Offer { room: 0, ..ALL }), Plan::Plain, "{mode}");
        }
    }

    #[test]
    fn modes_without_a_head_do_what_they_can() {
        assert_eq!(plan("mtp", false, ALL), Plan::Plain);
        assert_eq!(plan("mtp+lookup:3", false, ALL), Plan::Lookup { depth: 3 });
        let policy = |mode, has_mtp| Policy::new(mode, has_mtp);
        assert!(!policy(SpecMode::Adaptive, false).uses_mtp());
        assert!(policy(SpecMode::Adaptive, true).uses_mtp());
        assert!(policy(SpecMode::Adaptive, false).uses_lookup());
        assert!(!policy(SpecMode::Mtp { depth: 1 }, true).uses_lookup());
        assert!(!policy(SpecMode::Lookup { depth: 1 }, true).uses_mtp());
        assert!(!policy(SpecMode::Off, true).uses_mtp());
    }

    #[test]
    fn fixed_modes_draft_to_their_depth_and_keep_all() {
        let mut policy = Policy::new(SpecMode::Mtp { depth: 3 }, true);
        policy.plan(ALL);
        assert!(policy.deeper(&[0.1]));
        assert!(policy.deeper(&[0.1, 0.0]));
        assert!(!policy.deeper(&[1.0, 1.0, 1.0]));
        assert_eq!(policy.keep(&[0.0, 0.0]), 2);
        policy.plan(Offer { room: 1, ..ALL });
        assert!(!policy.deeper(&[1.0]));
    }
}
