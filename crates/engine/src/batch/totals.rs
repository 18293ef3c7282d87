//! Counts over all requests.

use std::time::Duration;

/// Counts since the scheduler was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that ended, however they did.
    pub ended: u64,
    /// Windows.
    pub steps: u64,
    /// Tokens of prompts that were there already, in a slot or in the cache.
    pub reused: u64,
    /// Tokens of prompts that were computed.
    pub prefilled: u64,
    /// Tokens drawn.
    pub generated: u64,
    /// Drafts verified, and of those accepted.
    pub drafted: u64,
    /// See [`Totals::drafted`].
    pub accepted: u64,
    /// Time that requests waited for a slot, of those that got one.
    pub queued: Duration,
}
