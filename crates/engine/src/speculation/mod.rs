//! Speculation.

/// Most drafts in a round.
pub const MAX_DEPTH: usize = 8;
