//! Speculative decoding: what is decided from round to round.

mod guard;

pub use guard::{Head, SubsetGuard, Switch, Verified};

/// Most drafts in a round.
pub const MAX_DEPTH: usize = 8;
