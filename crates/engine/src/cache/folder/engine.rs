//! From a folder into slots, and from slots, or a cache in memory, into a folder.

use super::{FolderError, Owner, Saved, Source, StateFolder};
use crate::cache::StateCache;
use crate::snapshot::Encoder;
use crate::{Engine, Error};
use kernels::Backend;

/// What a folder had for a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromFolder {
    /// Tokens of the text that the slot holds now; 0 if the folder had nothing of use.
    pub tokens: usize,
    /// One line about each file that should have been of use and was not.
    pub ignored: Vec<String>,
}

impl<B: Backend> Engine<B> {
    /// Makes `slot` the longest beginning of `prompt` that `folder` has, if it is longer than the
    /// one that the slot holds already. Its last token is never part of that.
    ///
    /// # Errors
    /// [`FolderError::Io`] if the folder cannot be read; [`Error::NoSlot`]. The slot is as it was
    /// then.
    pub fn recall_saved(
        &mut self,
        slot: usize,
        folder: &mut StateFolder,
        prompt: &[u32],
    ) -> Result<FromFolder, FolderError> {
        let least = self.goes_on(slot, prompt)?;
        let context = self.saved_as(folder);
        let check = |pieces: &[_], snapshot: &_| self.check_restore(pieces, snapshot);
        let found = folder.find(context, (prompt, least), &check).map_err(folder.io())?;
        let mut ignored = found.ignored;
        let Some((pieces, snapshot)) = found.state else {
            return Ok(FromFolder { tokens: 0, ignored });
        };
        match self.restore(slot, &pieces, &snapshot) {
            Ok(()) => Ok(FromFolder { tokens: snapshot.len(), ignored }),
            Err(error) => {
                let path = folder.path.display();
                ignored.push(format!("a saved state in {path} ignored: {error}"));
                Ok(FromFolder { tokens: 0, ignored })
            }
        }
    }

    /// Saves the state that a text can best go on from whose tokens are those of `next` as far as
    /// they are known: what `slot` holds, or the longest beginning that `cache` has.
    ///
    /// # Errors
    /// [`FolderError`]. What was saved before stays usable.
    pub fn save_for(
        &mut self,
        slot: usize,
        (folder, owner): (&mut StateFolder, Owner),
        next: &[u32],
        cache: Option<&mut StateCache>,
    ) -> Result<Saved, FolderError> {
        let held = self.goes_on(slot, next)?;
        let key = (self.saved_as(folder), owner);
        let hit = cache.and_then(|cache| cache.lookup(next)).filter(|hit| hit.len > held);
        if let Some(mut hit) = hit {
            return folder.put(key, &mut hit);
        }
        if held == 0 {
            return Ok(Saved::Nothing);
        }
        self.settle(slot)?;
        folder.put(key, &mut Slot { engine: self, slot })
    }

    /// Tokens that the slot can go on from to `text`.
    fn goes_on(&self, slot: usize, text: &[u32]) -> Result<usize, Error> {
        let held = self.history(slot)?;
        let usable = !self.is_broken(slot)? && self.slots.on_trial(slot) == 0;
        let begins = held.len() < text.len() && text.starts_with(held);
        Ok(if usable && begins { held.len() } else { 0 })
    }

    /// Of everything that decides about a state's bits besides its tokens.
    fn saved_as(&self, folder: &StateFolder) -> u64 {
        folder.context(self.fingerprint, &format!("deferred {}", self.config.deferred))
    }
}

/// A slot as the source of files.
struct Slot<'a, B: Backend> {
    engine: &'a mut Engine<B>,
    slot: usize,
}

impl<B: Backend> Source for Slot<'_, B> {
    fn tokens(&self) -> Vec<u32> {
        self.engine.slots.tokens(self.slot).to_vec()
    }

    fn has_mtp(&self, index: usize) -> bool {
        index < self.engine.pieces_with_mtp(self.slot)
    }

    fn snapshot(&mut self, to: &mut Encoder) -> Result<(), Error> {
        to.snapshot(&self.engine.snapshot(self.slot)?);
        Ok(())
    }

    fn piece(&mut self, index: usize, to: &mut Encoder) -> Result<(), Error> {
        to.piece(&self.engine.piece(self.slot, index)?);
        Ok(())
    }
}
