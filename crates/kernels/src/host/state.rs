//! Slot states of each layer kind.

use super::memory::{reserve, zeroed};
use crate::{Error, GdnShape, PleShape, QsaShape};

/// Delta-rule state and convolution history of one Gated DeltaNet layer.
#[derive(Clone, Debug)]
pub struct GdnState {
    s: Vec<f32>,
    conv: Vec<f32>,
    s_len: usize,
    conv_len: usize,
}

impl GdnState {
    /// States of `slots` fresh sequences.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(shape: &GdnShape, slots: usize) -> Result<Self, Error> {
        let (s_len, conv_len) = (shape.state_len(), shape.conv_len());
        let s = zeroed(s_len.saturating_mul(slots), "delta-rule states")?;
        let conv = zeroed(conv_len.saturating_mul(slots), "convolution histories")?;
        Ok(Self { s, conv, s_len, conv_len })
    }

    /// Delta-rule state of `slot`: `[value_heads, key dim, value dim]`.
    pub fn s(&self, slot: usize) -> &[f32] {
        &self.s[slot * self.s_len..][..self.s_len]
    }

    /// As [`GdnState::s`], to be advanced.
    pub fn s_mut(&mut self, slot: usize) -> &mut [f32] {
        &mut self.s[slot * self.s_len..][..self.s_len]
    }

    /// States of all slots, one after the other.
    pub fn all_s_mut(&mut self) -> &mut [f32] {
        &mut self.s
    }

    /// Convolution history of `slot`: `[kernel - 1, channels]`, oldest first.
    pub fn conv(&self, slot: usize) -> &[f32] {
        &self.conv[slot * self.conv_len..][..self.conv_len]
    }

    /// As [`GdnState::conv`], to be advanced.
    pub fn conv_mut(&mut self, slot: usize) -> &mut [f32] {
        &mut self.conv[slot * self.conv_len..][..self.conv_len]
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.s_mut(slot).fill(0.0);
        self.conv_mut(slot).fill(0.0);
    }
}

/// Cache of one slot in one sparse attention layer; grows with the sequence.
#[derive(Clone, Debug, Default)]
pub struct KvSlot {
    /// Rotated keys `[len, kv_dim]`.
    pub k: Vec<f32>,
    /// Values `[len, kv_dim]`.
    pub v: Vec<f32>,
    /// Raw index keys `[len, index_dim]`.
    pub index: Vec<f32>,
    /// Pooled, normalised and rotated keys of the complete blocks `[blocks, index_dim]`.
    pub blocks: Vec<f32>,
}

/// Caches of one sparse attention layer.
#[derive(Clone, Debug)]
pub struct QsaState {
    slots: Vec<KvSlot>,
    context: usize,
}

impl QsaState {
    /// Caches of `slots` fresh sequences of at most `context` tokens.
    pub fn new(slots: usize, context: usize) -> Self {
        Self { slots: vec![KvSlot::default(); slots], context }
    }

    /// Cache of `slot`.
    pub fn slot(&self, slot: usize) -> &KvSlot {
        &self.slots[slot]
    }

    /// Makes room for `len` tokens in the cache of `slot`: memory is taken in steps, so that a long
    /// sequence is not copied for every token.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; what the cache holds stays as it is.
    pub fn reserve(&mut self, shape: &QsaShape, slot: usize, len: usize) -> Result<(), Error> {
        const STEP: usize = 256;
        let rows = len.next_multiple_of(STEP).min(self.context).max(len);
        let kv = &mut self.slots[slot];
        reserve(&mut kv.k, rows, shape.kv_dim())?;
        reserve(&mut kv.v, rows, shape.kv_dim())?;
        if let Some(blocks) = rows.checked_div(shape.block) {
            reserve(&mut kv.index, rows, shape.index_dim)?;
            reserve(&mut kv.blocks, blocks, shape.index_dim)?;
        }
        Ok(())
    }

    /// Cache of `slot`, about to hold `len` tokens.
    ///
    /// # Panics
    /// If `len` is over the context that the state was made for.
    pub fn slot_mut(&mut self, slot: usize, len: usize) -> &mut KvSlot {
        assert!(len <= self.context, "{len} tokens in a cache of {}", self.context);
        &mut self.slots[slot]
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.slots[slot] = KvSlot::default();
    }
}

/// Convolution history of the n-gram features.
#[derive(Clone, Debug)]
pub struct PleState {
    conv: Vec<f32>,
    len: usize,
}

impl PleState {
    /// Histories of `slots` fresh sequences.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(shape: &PleShape, slots: usize) -> Result<Self, Error> {
        let len = shape.conv_len();
        Ok(Self { conv: zeroed(len.saturating_mul(slots), "n-gram convolution histories")?, len })
    }

    /// History of `slot`: `[history, channels]`, oldest first.
    pub fn conv(&self, slot: usize) -> &[f32] {
        &self.conv[slot * self.len..][..self.len]
    }

    /// As [`PleState::conv`], to be advanced.
    pub fn conv_mut(&mut self, slot: usize) -> &mut [f32] {
        &mut self.conv[slot * self.len..][..self.len]
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.conv_mut(slot).fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_136_a_cache_beyond_any_memory_is_an_error_and_the_cache_stays() {
        let shape = QsaShape {
            heads: 4096,
            kv_heads: 4096,
            head_dim: 8192,
            rope_dims: 2,
            rope_base: 1e7,
            index_heads: 1,
            index_dim: 8192,
            budget: 4,
            block: 4,
            eps: 1e-6,
        };
        let mut state = QsaState::new(1, usize::MAX);
        state.slot_mut(0, 1).k.push(1.0);
        for len in [1 << 30, usize::MAX / 2] {
            let result = state.reserve(&shape, 0, len);
            assert!(matches!(result, Err(Error::OutOfMemory { .. })), "{len} tokens");
            assert_eq!(state.slot(0).k, [1.0]);
        }
    }
}
