//! Sequence states: what each slot has seen, and the layer states that follow from it.

use crate::Error;
use crate::weights::{Mixer, Weights};
use kernels::Backend;

/// State of one layer, all slots.
pub(crate) enum LayerState<B: Backend> {
    Gdn(B::GdnState),
    Attention(B::QsaState),
}

/// States of all layers and the tokens of every slot.
pub(crate) struct Slots<B: Backend> {
    pub(crate) layers: Vec<LayerState<B>>,
    pub(crate) ple: Option<B::PleState>,
    tokens: Vec<Vec<u32>>,
    broken: Vec<bool>,
}

impl<B: Backend> Slots<B> {
    /// `slots` fresh sequences of at most `context` tokens.
    pub(crate) fn new(
        backend: &mut B,
        weights: &Weights<B>,
        slots: usize,
        context: usize,
    ) -> Result<Self, Error> {
        let mut layers = Vec::with_capacity(weights.layers.len());
        let mut ple = None;
        for layer in &weights.layers {
            layers.push(match &layer.mixer {
                Mixer::Gdn(gdn) => LayerState::Gdn(backend.new_gdn_state(&gdn.shape, slots)?),
                Mixer::Attention(attention) => LayerState::Attention(backend.new_qsa_state(
                    &attention.shape,
                    slots,
                    context,
                )?),
            });
            if let Some(layer) = &layer.ple {
                ple = Some(backend.new_ple_state(&layer.shape, slots)?);
            }
        }
        Ok(Self { layers, ple, tokens: vec![Vec::new(); slots], broken: vec![false; slots] })
    }

    pub(crate) fn count(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens that `slot` has processed; ids are looked up here by position.
    pub(crate) fn tokens(&self, slot: usize) -> &[u32] {
        &self.tokens[slot]
    }

    /// Notes that the layer states of `slot` now include `tokens`.
    pub(crate) fn advance(&mut self, slot: usize, tokens: &[u32]) {
        self.tokens[slot].extend_from_slice(tokens);
    }

    /// Makes room for `more` tokens in the caches of `slot`; what they hold stays as it is.
    pub(crate) fn reserve(
        &mut self,
        backend: &mut B,
        weights: &Weights<B>,
        slot: usize,
        more: usize,
    ) -> Result<(), Error> {
        let len = self.tokens[slot].len() + more;
        for (layer, state) in weights.layers.iter().zip(&mut self.layers) {
            if let (Mixer::Attention(attention), LayerState::Attention(state)) =
                (&layer.mixer, state)
            {
                backend.reserve_qsa(&attention.shape, state, slot, len)?;
            }
        }
        Ok(())
    }

    /// Marks the slot as unusable until it is reset.
    pub(crate) fn set_broken(&mut self, slot: usize) {
        self.broken[slot] = true;
    }

    pub(crate) fn is_broken(&self, slot: usize) -> bool {
        self.broken[slot]
    }

    /// Makes `slot` a fresh sequence.
    pub(crate) fn reset(&mut self, backend: &mut B, slot: usize) {
        for layer in &mut self.layers {
            match layer {
                LayerState::Gdn(state) => backend.reset_gdn(state, slot),
                LayerState::Attention(state) => backend.reset_qsa(state, slot),
            }
        }
        if let Some(state) = &mut self.ple {
            backend.reset_ple(state, slot);
        }
        self.tokens[slot].clear();
        self.broken[slot] = false;
    }
}
