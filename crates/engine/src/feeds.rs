//! What is fed to the engine.

use kernels::Commit;

/// Which rows of a feed give logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// None: the tokens only advance the slot.
    Nothing,
    /// The last row.
    Last,
    /// Every row.
    All,
}

/// The next tokens of one slot.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'a> {
    /// The slot.
    pub slot: usize,
    /// Its next tokens, at least one.
    pub tokens: &'a [u32],
    /// Rows whose logits are wanted.
    pub want: Want,
    /// Whether the tokens count at once, or [`crate::Engine::decide`] says later how many do.
    pub commit: Commit,
}

impl<'a> Feed<'a> {
    /// Rows that give logits.
    pub fn wanted_rows(&self) -> usize {
        match self.want {
            Want::Nothing => 0,
            Want::Last => 1,
            Want::All => self.tokens.len(),
        }
    }

    /// Tokens that count at once.
    pub fn new(slot: usize, tokens: &'a [u32], want: Want) -> Self {
        Self { slot, tokens, want, commit: Commit::Now }
    }

    /// Tokens on trial, all of whose logits are wanted.
    pub fn deferred(slot: usize, tokens: &'a [u32]) -> Self {
        Self { slot, tokens, want: Want::All, commit: Commit::Deferred }
    }
}
