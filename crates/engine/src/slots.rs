//! Sequence states: what each slot has seen, and the layer states that follow from it.

use crate::fingerprint::Fingerprint;
use crate::snapshot::PIECE_TOKENS;
use crate::weights::{Mixer, Weights};
use crate::{EngineConfig, Error};
use kernels::{Backend, Commit, Run};

/// State of one layer, all slots.
pub(crate) enum LayerState<B: Backend> {
    Gdn(B::GdnState),
    Attention(B::QsaState),
}

/// States of all layers and the tokens of every slot.
pub(crate) struct Slots<B: Backend> {
    pub(crate) layers: Vec<LayerState<B>>,
    pub(crate) ple: Option<B::PleState>,
    sequences: Vec<Sequence>,
}

/// What a slot has seen.
#[derive(Clone, Debug, Default)]
struct Sequence {
    /// Its tokens; ids are looked up here by position.
    tokens: Vec<u32>,
    /// Of all tokens up to the end of each whole piece, as far as they were asked for.
    prints: Vec<Fingerprint>,
    /// Tokens of a deferred feed that nothing was decided about yet.
    on_trial: Vec<u32>,
    /// How many of `tokens`, the last ones, the recurrent states do not include yet.
    replay: usize,
    /// Whether a device fault left the states unusable.
    broken: bool,
}

impl<B: Backend> Slots<B> {
    /// Fresh sequences of the sizes in `config`.
    pub(crate) fn new(
        backend: &mut B,
        weights: &Weights<B>,
        config: &EngineConfig,
    ) -> Result<Self, Error> {
        let EngineConfig { slots, context, deferred, kv, .. } = *config;
        let mut layers = Vec::with_capacity(weights.layers.len());
        let mut ple = None;
        for layer in &weights.layers {
            layers.push(match &layer.mixer {
                Mixer::Gdn(gdn) => {
                    LayerState::Gdn(backend.new_gdn_state(&gdn.shape, slots, deferred)?)
                }
                Mixer::Attention(attention) => LayerState::Attention(backend.new_qsa_state(
                    &attention.shape,
                    slots,
                    context,
                    kv,
                )?),
            });
            if let Some(layer) = &layer.ple {
                ple = Some(backend.new_ple_state(&layer.shape, slots, deferred)?);
            }
        }
        Ok(Self { layers, ple, sequences: vec![Sequence::default(); slots] })
    }

    pub(crate) fn count(&self) -> usize {
        self.sequences.len()
    }

    /// Tokens that `slot` has processed.
    pub(crate) fn tokens(&self, slot: usize) -> &[u32] {
        &self.sequences[slot].tokens
    }

    /// The fingerprint of the first `len` tokens of `slot`. Pieces are hashed once.
    pub(crate) fn print(&mut self, slot: usize, len: usize) -> Fingerprint {
        let Sequence { tokens, prints, .. } = &mut self.sequences[slot];
        let whole = len / PIECE_TOKENS;
        for piece in tokens[..len].chunks_exact(PIECE_TOKENS).skip(prints.len()) {
            let mut print = prints.last().copied().unwrap_or(Fingerprint::new());
            print.add_tokens(piece);
            prints.push(print);
        }
        let last = whole.checked_sub(1).map(|index| prints[index]);
        let mut print = last.unwrap_or(Fingerprint::new());
        print.add_tokens(&tokens[whole * PIECE_TOKENS..len]);
        print
    }

    /// The run of the next `len` tokens of `slot`, at row `first_row`.
    pub(crate) fn run(&self, slot: usize, first_row: usize, len: usize, commit: Commit) -> Run {
        let Sequence { tokens, replay, .. } = &self.sequences[slot];
        Run { slot, first_row, len, first_pos: tokens.len(), replay: *replay, commit }
    }

    /// Notes that a window has run `tokens` on `slot`, after what was to be replayed.
    pub(crate) fn advance(&mut self, slot: usize, tokens: &[u32], commit: Commit) {
        let sequence = &mut self.sequences[slot];
        sequence.replay = 0;
        match commit {
            Commit::Now => sequence.tokens.extend_from_slice(tokens),
            Commit::Deferred => sequence.on_trial.extend_from_slice(tokens),
        }
    }

    /// Number of tokens on trial.
    pub(crate) fn on_trial(&self, slot: usize) -> usize {
        self.sequences[slot].on_trial.len()
    }

    /// Makes the first `count` tokens on trial a part of the sequence and forgets the others.
    pub(crate) fn decide(&mut self, slot: usize, count: usize) {
        let Sequence { tokens, on_trial, replay, .. } = &mut self.sequences[slot];
        tokens.extend_from_slice(&on_trial[..count]);
        on_trial.clear();
        *replay = count;
    }

    /// Makes room for `more` tokens in the caches of `slot`; what they hold stays as it is.
    pub(crate) fn reserve(
        &mut self,
        backend: &mut B,
        weights: &Weights<B>,
        slot: usize,
        more: usize,
    ) -> Result<(), Error> {
        let len = self.sequences[slot].tokens.len() + more;
        self.reserve_len(backend, weights, slot, len)
    }

    /// Makes room for `len` tokens in all.
    pub(crate) fn reserve_len(
        &mut self,
        backend: &mut B,
        weights: &Weights<B>,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        for (layer, state) in weights.layers.iter().zip(&mut self.layers) {
            if let (Mixer::Attention(attention), LayerState::Attention(state)) =
                (&layer.mixer, state)
            {
                backend.reserve_qsa(&attention.shape, state, slot, len)?;
            }
        }
        Ok(())
    }

    /// Makes `tokens` the sequence of `slot`, whose states were put in place.
    pub(crate) fn replace(&mut self, slot: usize, tokens: Vec<u32>) {
        self.sequences[slot] = Sequence { tokens, ..Sequence::default() };
    }

    /// Marks the slot as unusable until it is reset.
    pub(crate) fn set_broken(&mut self, slot: usize) {
        self.sequences[slot].broken = true;
    }

    pub(crate) fn is_broken(&self, slot: usize) -> bool {
        self.sequences[slot].broken
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
        let sequence = &mut self.sequences[slot];
        sequence.tokens.clear();
        sequence.prints.clear();
        sequence.on_trial.clear();
        (sequence.replay, sequence.broken) = (0, false);
    }
}
