//! Looking at the states of a sequence: copies for tests and tools, and a hash of them all.

use crate::engine::routing;
use crate::forward::Pass;
use crate::slots::LayerState;
use crate::weights::Mixer;
use crate::{Engine, Error};
use kernels::gdn::GdnSlot;
use kernels::host::KvSlot;
use kernels::{Backend, Commit};
use std::hash::{DefaultHasher, Hash, Hasher};

impl<B: Backend> Engine<B> {
    /// Enters what was accepted of the slot's last deferred feed into its states now, instead of in
    /// its next window.
    ///
    /// # Errors
    /// [`Error::NoSlot`], [`Error::SlotBroken`], [`Error::Undecided`].
    pub fn settle(&mut self, slot: usize) -> Result<(), Error> {
        self.check_slot(slot)?;
        if self.slots.is_broken(slot) {
            return Err(Error::SlotBroken { slot });
        }
        if self.slots.on_trial(slot) > 0 {
            return Err(Error::Undecided { slot });
        }
        let run = self.slots.run(slot, 0, 0, Commit::Now);
        if run.replay == 0 {
            return Ok(());
        }
        self.window.clear();
        self.window.push_run(run);
        let mut pass = Pass {
            backend: &mut self.backend,
            weights: &self.weights,
            routing: routing(&self.hp, &self.config),
            slots: &mut self.slots,
            scratch: &mut self.scratch,
            window: &self.window,
            reads: &mut self.reads,
        };
        pass.replay();
        self.slots.advance(slot, &[], Commit::Now);
        Ok(())
    }

    /// A copy of the slot's state in a Gated DeltaNet layer, or `None` for another layer.
    ///
    /// # Errors
    /// As for [`Engine::settle`].
    pub fn export_gdn(&mut self, layer: usize, slot: usize) -> Result<Option<GdnSlot>, Error> {
        self.settle(slot)?;
        Ok(match self.slots.layers.get(layer) {
            Some(LayerState::Gdn(state)) => Some(self.backend.export_gdn(state, slot)),
            _ => None,
        })
    }

    /// Convolution history of the n-gram features, if the model has them; layout in
    /// [`kernels::PleShape`].
    ///
    /// # Errors
    /// As for [`Engine::settle`].
    pub fn export_ple(&mut self, slot: usize) -> Result<Option<Vec<f32>>, Error> {
        self.settle(slot)?;
        Ok(self.slots.ple.as_ref().map(|state| self.backend.export_ple(state, slot)))
    }

    /// A copy of the slot's cache in a sparse attention layer, as long as its sequence, or `None`
    /// for another layer.
    ///
    /// # Errors
    /// [`Error::NoSlot`].
    pub fn export_qsa(&mut self, layer: usize, slot: usize) -> Result<Option<KvSlot>, Error> {
        self.check_slot(slot)?;
        let parts = (self.weights.layers.get(layer), self.slots.layers.get(layer));
        let (Some(weights), Some(LayerState::Attention(state))) = parts else { return Ok(None) };
        let Mixer::Attention(attention) = &weights.mixer else { return Ok(None) };
        let (shape, len) = (&attention.shape, self.slots.tokens(slot).len());
        let mut kv = self.backend.export_qsa(state, slot);
        kv.k.truncate(len * shape.kv_dim());
        kv.v.truncate(len * shape.kv_dim());
        kv.index.truncate(len * shape.index_dim);
        kv.blocks.truncate(len.checked_div(shape.block).unwrap_or(0) * shape.index_dim);
        Ok(Some(kv))
    }

    /// A hash of everything that decides what follows: the tokens and the states of all layers, to
    /// the bit.
    ///
    /// # Errors
    /// As for [`Engine::settle`].
    pub fn state_hash(&mut self, slot: usize) -> Result<u64, Error> {
        self.settle(slot)?;
        let mut hasher = DefaultHasher::new();
        self.slots.tokens(slot).hash(&mut hasher);
        let mut add = |values: &[f32]| {
            values.len().hash(&mut hasher);
            values.iter().for_each(|value| value.to_bits().hash(&mut hasher));
        };
        for layer in 0..self.slots.layers.len() {
            if let Some(GdnSlot { s, conv }) = self.export_gdn(layer, slot)? {
                add(&s);
                add(&conv);
            }
            if let Some(KvSlot { k, v, index, blocks }) = self.export_qsa(layer, slot)? {
                [k, v, index, blocks].iter().for_each(|values| add(values));
            }
        }
        add(&self.export_ple(slot)?.unwrap_or_default());
        Ok(hasher.finish())
    }
}
