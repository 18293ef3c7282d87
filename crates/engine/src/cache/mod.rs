//! The prompt cache: states of texts that were computed, found again by their tokens.
//!
//! A hybrid model's state exists at the positions where it was saved and at no other, so what is
//! found is the longest *saved* beginning of a text, and the rest is computed. [`PromptCache`] is
//! the data structure and knows nothing of models; [`StateCache`] is the one with an engine's
//! states, which `slot` puts into slots and takes from them, and `folder` keeps on disk.

mod evict;
mod folder;
mod points;
mod slot;
#[cfg(test)]
mod tests;
mod tree;

use crate::{PIECE_TOKENS, Piece, Snapshot};
use std::sync::Arc;

pub use folder::{FolderError, FromFolder, Owner, Saved, StateFolder};
pub use points::Keep;
pub(crate) use points::points;
pub use slot::Recalled;
pub use tree::PromptCache;

/// States of an engine's sequences.
pub type StateCache = PromptCache<Piece, Snapshot>;

impl StateCache {
    /// An empty cache that never takes more than `budget` bytes.
    pub fn for_states(budget: usize) -> Self {
        Self::new(PIECE_TOKENS, budget)
    }
}

/// Something with a size.
pub trait Held {
    /// Bytes that it takes.
    fn bytes(&self) -> usize;
}

impl Held for Piece {
    fn bytes(&self) -> usize {
        Piece::bytes(self)
    }
}

impl Held for Snapshot {
    fn bytes(&self) -> usize {
        Snapshot::bytes(self)
    }
}

/// Why a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It lies on the way through a text; of use while nothing behind it is saved.
    Interval,
    /// A message ends there: other texts may go on from it.
    Boundary,
}

/// A saved beginning of a text. What is held is not evicted.
#[derive(Debug)]
pub struct Hit<P, S> {
    /// Tokens of the beginning.
    pub len: usize,
    /// Its whole blocks, in order.
    pub pieces: Vec<Arc<P>>,
    /// The state at its end.
    pub snapshot: Arc<S>,
}

/// Where a cache gets from what is inserted.
pub trait Source<P, S> {
    /// What can go wrong.
    type Error;

    /// The state at the end.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn snapshot(&mut self) -> Result<S, Self::Error>;

    /// The block number `index`.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn piece(&mut self, index: usize) -> Result<P, Self::Error>;

    /// Whether the block number `index` from here is to replace the one that is there.
    fn improves(&self, index: usize, held: &P) -> bool {
        let _ = (index, held);
        false
    }
}

/// What became of something to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the cache.
    Kept,
    /// It was there before.
    Known,
    /// It does not fit beside what is in use.
    NoRoom,
}
