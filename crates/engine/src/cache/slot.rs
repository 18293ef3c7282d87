//! From the cache into slots, and from slots into the cache.

use super::{Inserted, Mark, Source, StateCache};
use crate::{Engine, Error, Piece, Snapshot};
use kernels::Backend;

/// What a slot holds of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// Nothing: it is a fresh sequence.
    Nothing,
    /// So many tokens, which it held before.
    Held(usize),
    /// So many tokens, from the cache.
    Restored(usize),
}

impl Recalled {
    /// Tokens of the prompt that need not be computed.
    pub fn tokens(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Held(tokens) | Self::Restored(tokens) => tokens,
        }
    }
}

impl<B: Backend> Engine<B> {
    /// Makes `slot` a beginning of `prompt`, as long as can be had without computing it: what it
    /// holds already, or what `cache` has of it. The last token is never among it, as its logits
    /// are what follows from.
    ///
    /// # Errors
    /// [`Error::NoSlot`]. A saved state that turns out to be unusable is forgotten.
    pub fn recall(
        &mut self,
        slot: usize,
        cache: Option<&mut StateCache>,
        prompt: &[u32],
    ) -> Result<Recalled, Error> {
        let held = self.held_of(slot, prompt)?;
        if let Some(cache) = cache
            && let Some(hit) = cache.lookup(prompt).filter(|hit| hit.len > held)
        {
            match self.restore(slot, &hit.pieces, &hit.snapshot) {
                Ok(()) => return Ok(Recalled::Restored(hit.len)),
                Err(_) => cache.forget(hit),
            }
            return Ok(Recalled::Nothing);
        }
        if held > 0 {
            return Ok(Recalled::Held(held));
        }
        self.reset(slot)?;
        Ok(Recalled::Nothing)
    }

    /// Saves what `slot` is now.
    ///
    /// # Errors
    /// As for [`Engine::snapshot`].
    pub fn remember(
        &mut self,
        slot: usize,
        cache: &mut StateCache,
        mark: Mark,
    ) -> Result<Inserted, Error> {
        self.settle(slot)?;
        let tokens = self.slots.tokens(slot).to_vec();
        cache.insert(&tokens, mark, &mut Slot { engine: self, slot })
    }

    /// Tokens that the slot can go on from to `prompt`.
    pub(crate) fn held_of(&self, slot: usize, prompt: &[u32]) -> Result<usize, Error> {
        let held = self.history(slot)?;
        let on_the_way = held.len() < prompt.len() && prompt.starts_with(held);
        let usable = on_the_way && !self.is_broken(slot)? && self.slots.on_trial(slot) == 0;
        Ok(if usable { held.len() } else { 0 })
    }
}

/// A slot as the source of an entry.
struct Slot<'a, B: Backend> {
    engine: &'a mut Engine<B>,
    slot: usize,
}

impl<B: Backend> Source<Piece, Snapshot> for Slot<'_, B> {
    type Error = Error;

    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        self.engine.snapshot(self.slot)
    }

    fn piece(&mut self, index: usize) -> Result<Piece, Error> {
        self.engine.piece(self.slot, index)
    }

    fn improves(&self, index: usize, held: &Piece) -> bool {
        !held.has_mtp() && index < self.engine.pieces_with_mtp(self.slot)
    }
}
