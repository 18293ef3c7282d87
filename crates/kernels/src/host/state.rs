//! Slot states of each layer kind.

mod transfer;

use super::kv::KvCache;
use super::memory::zeroed;
use crate::{Error, GdnShape, KvType, PleShape, QsaShape, Run};

/// Delta-rule state and convolution history of one Gated DeltaNet layer, and the inputs of rows
/// that were set aside ([`Commit::Deferred`]).
#[derive(Clone, Debug)]
pub struct GdnState {
    s: Vec<f32>,
    conv: Vec<f32>,
    aside: GdnAside,
    s_len: usize,
    conv_len: usize,
}

/// Rows that all slots set aside, `[slots, deferred, ...]`.
#[derive(Clone, Debug)]
pub struct GdnAside {
    /// Before the convolution `[.., channels]`.
    m: Vec<f32>,
    /// After it `[.., channels]`.
    qkv: Vec<f32>,
    /// `[.., value_heads]`.
    alpha: Vec<f32>,
    /// `[.., value_heads]`.
    beta: Vec<f32>,
    /// Rows per slot.
    rows: usize,
    channels: usize,
    heads: usize,
}

/// Inputs of [`crate::Gdn::gdn_scan`] that a slot set aside, one row after the other.
#[derive(Clone, Copy, Debug)]
pub struct AsideRows<'a> {
    /// `[rows, channels]`.
    pub qkv: &'a [f32],
    /// `[rows, value_heads]`.
    pub alpha: &'a [f32],
    /// `[rows, value_heads]`.
    pub beta: &'a [f32],
}

impl GdnState {
    /// States of `slots` fresh sequences, each with room for `deferred` rows set aside.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(shape: &GdnShape, slots: usize, deferred: usize) -> Result<Self, Error> {
        let (s_len, conv_len) = (shape.state_len(), shape.conv_len());
        let (channels, heads) = (shape.channels(), shape.value_heads);
        let s = zeroed(s_len.saturating_mul(slots), "delta-rule states")?;
        let conv = zeroed(conv_len.saturating_mul(slots), "convolution histories")?;
        let aside = |width: usize| {
            zeroed(slots.saturating_mul(deferred).saturating_mul(width), "rows set aside")
        };
        let aside = GdnAside {
            m: aside(channels)?,
            qkv: aside(channels)?,
            alpha: aside(heads)?,
            beta: aside(heads)?,
            rows: deferred,
            channels,
            heads,
        };
        Ok(Self { s, conv, aside, s_len, conv_len })
    }

    /// Delta-rule state of `slot`: `[value_heads, key dim, value dim]`.
    pub fn s(&self, slot: usize) -> &[f32] {
        &self.s[slot * self.s_len..][..self.s_len]
    }

    /// Convolution history of `slot`: `[kernel - 1, channels]`, oldest first.
    pub fn conv(&self, slot: usize) -> &[f32] {
        &self.conv[slot * self.conv_len..][..self.conv_len]
    }

    /// Convolution history of `slot`, to be advanced, and the columns it set aside
    /// `[deferred, channels]`.
    pub fn conv_mut(&mut self, slot: usize) -> (&mut [f32], &mut [f32]) {
        let len = self.aside.rows * self.aside.channels;
        let conv = &mut self.conv[slot * self.conv_len..][..self.conv_len];
        (conv, &mut self.aside.m[slot * len..][..len])
    }

    /// Delta-rule states of all slots, one after the other, to be advanced, and what the slots set
    /// aside.
    pub fn scan_mut(&mut self) -> (&mut [f32], &GdnAside) {
        (&mut self.s, &self.aside)
    }

    /// Sets the inputs of `run`'s rows aside; the slices are those of the window.
    ///
    /// # Panics
    /// If the run is longer than the state was made for.
    pub fn set_aside(&mut self, run: &Run, rows: AsideRows<'_>) {
        let GdnAside { rows: room, channels, heads, .. } = self.aside;
        assert!(run.len <= room, "{} rows to set aside, room for {room}", run.len);
        let copy = |from: &[f32], to: &mut [f32], width: usize| {
            let from = &from[run.first_row * width..][..run.len * width];
            to[run.slot * room * width..][..from.len()].copy_from_slice(from);
        };
        copy(rows.qkv, &mut self.aside.qkv, channels);
        copy(rows.alpha, &mut self.aside.alpha, heads);
        copy(rows.beta, &mut self.aside.beta, heads);
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.s[slot * self.s_len..][..self.s_len].fill(0.0);
        self.conv[slot * self.conv_len..][..self.conv_len].fill(0.0);
    }
}

impl GdnAside {
    /// The rows of `slot`.
    pub fn of(&self, slot: usize) -> AsideRows<'_> {
        let at = |width: usize| slot * self.rows * width..(slot + 1) * self.rows * width;
        AsideRows {
            qkv: &self.qkv[at(self.channels)],
            alpha: &self.alpha[at(self.heads)],
            beta: &self.beta[at(self.heads)],
        }
    }
}

/// A copy of one slot's cache in one sparse attention layer, decoded to f32.
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
    slots: Vec<KvCache>,
    context: usize,
    kv: KvType,
    kv_dim: usize,
}

impl QsaState {
    /// Caches of `slots` fresh sequences of at most `context` tokens, with keys and values stored
    /// as `kv`.
    ///
    /// # Errors
    /// [`Error::KvWidth`] if heads are no multiple of the type's block.
    pub fn new(shape: &QsaShape, slots: usize, context: usize, kv: KvType) -> Result<Self, Error> {
        let (head_dim, kv_dim) = (shape.head_dim, shape.kv_dim());
        if !head_dim.is_multiple_of(kv.block()) {
            return Err(Error::KvWidth { kv, head_dim });
        }
        Ok(Self { slots: vec![KvCache::new(kv, kv_dim); slots], context, kv, kv_dim })
    }

    /// How keys and values are stored.
    pub fn kv(&self) -> KvType {
        self.kv
    }

    /// Cache of `slot`.
    pub fn slot(&self, slot: usize) -> &KvCache {
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
        self.slots[slot].reserve(shape, rows, self.context)
    }

    /// Cache of `run`'s slot, about to get the run's tokens: what it holds from the run's first
    /// position on is dropped.
    ///
    /// # Panics
    /// If it holds less, or would hold more than the context that the state was made for.
    pub fn extend(&mut self, shape: &QsaShape, run: &Run) -> &mut KvCache {
        let (len, slot) = (run.first_pos + run.len, run.slot);
        assert!(len <= self.context, "{len} tokens in a cache of {}", self.context);
        let kv = &mut self.slots[slot];
        let first = run.first_pos;
        assert!(kv.k.len() >= first, "slot {slot} holds fewer than {first} tokens");
        kv.k.truncate(first);
        kv.v.truncate(first);
        if let Some(blocks) = run.first_pos.checked_div(shape.block) {
            kv.index.truncate(run.first_pos * shape.index_dim);
            kv.blocks.truncate(blocks * shape.index_dim);
        }
        kv
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.slots[slot] = KvCache::new(self.kv, self.kv_dim);
    }
}

/// Convolution history of the n-gram features, and columns that were set aside.
#[derive(Clone, Debug)]
pub struct PleState {
    conv: Vec<f32>,
    /// `[slots, deferred, channels]`.
    aside: Vec<f32>,
    len: usize,
    aside_len: usize,
}

impl PleState {
    /// Histories of `slots` fresh sequences, each with room for `deferred` rows set aside.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(shape: &PleShape, slots: usize, deferred: usize) -> Result<Self, Error> {
        let (len, aside_len) = (shape.conv_len(), deferred.saturating_mul(shape.channels()));
        let of = |len: usize| zeroed(len.saturating_mul(slots), "n-gram convolution histories");
        Ok(Self { conv: of(len)?, aside: of(aside_len)?, len, aside_len })
    }

    /// History of `slot`: `[history, channels]`, oldest first.
    pub fn conv(&self, slot: usize) -> &[f32] {
        &self.conv[slot * self.len..][..self.len]
    }

    /// As [`PleState::conv`], to be advanced, and the columns that the slot set aside
    /// `[deferred, channels]`.
    pub fn conv_mut(&mut self, slot: usize) -> (&mut [f32], &mut [f32]) {
        let conv = &mut self.conv[slot * self.len..][..self.len];
        (conv, &mut self.aside[slot * self.aside_len..][..self.aside_len])
    }

    /// Makes `slot` a fresh sequence.
    pub fn reset(&mut self, slot: usize) {
        self.conv[slot * self.len..][..self.len].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::RopeScaling;

    #[test]
    fn fault_136_a_cache_beyond_any_memory_is_an_error_and_the_cache_stays() {
        let shape = QsaShape {
            heads: 4096,
            kv_heads: 4096,
            head_dim: 8192,
            rope_dims: 2,
            rope_base: 1e7,
            rope_scaling: RopeScaling::None,
            index_heads: 1,
            index_dim: 8192,
            budget: 4,
            block: 4,
            eps: 1e-6,
        };
        for kv in KvType::ALL {
            let mut state = QsaState::new(&shape, 1, usize::MAX, kv).unwrap();
            state.slots[0].k.append(&[1.0; 32]);
            let before = state.slot(0).k.decode();
            for len in [1 << 30, usize::MAX / 2] {
                let result = state.reserve(&shape, 0, len);
                assert!(matches!(result, Err(Error::OutOfMemory { .. })), "{len} tokens");
                assert_eq!(state.slot(0).k.decode(), before);
            }
        }
    }

    #[test]
    fn heads_that_blocks_do_not_fill_are_refused() {
        let shape = QsaShape {
            heads: 4,
            kv_heads: 2,
            head_dim: 48,
            rope_dims: 2,
            rope_base: 1e7,
            rope_scaling: RopeScaling::None,
            index_heads: 1,
            index_dim: 8,
            budget: 4,
            block: 4,
            eps: 1e-6,
        };
        for (kv, fits) in [(KvType::F32, true), (KvType::F16, true), (KvType::Q8_0, false)] {
            match QsaState::new(&shape, 1, 8, kv) {
                Ok(_) => assert!(fits),
                Err(Error::KvWidth { head_dim: 48, .. }) => assert!(!fits),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
