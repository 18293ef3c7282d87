//! States of the recurrent and the attention layers: what is kept for each slot, and how a slot
//! becomes a fresh sequence.
#![allow(dead_code, reason = "the sequence families read what is kept here")]

use crate::buffer::{Allocator, GpuBuffer};
use crate::recorder::Recorder;
use kernels::{Error, GdnShape, KvType, PleShape, QsaShape};

/// One buffer with a part of the same length for every slot.
#[derive(Debug)]
pub(crate) struct PerSlot {
    pub(crate) buffer: GpuBuffer,
    /// Values of a slot.
    pub(crate) len: usize,
}

impl PerSlot {
    fn new(
        allocator: &Allocator,
        slots: usize,
        len: usize,
        what: &'static str,
    ) -> Result<Self, Error> {
        Ok(Self { buffer: allocator.storage(slots.saturating_mul(len), what)?, len })
    }

    fn clear(&self, recorder: &mut Recorder, slot: usize) {
        recorder.clear(&self.buffer, slot * self.len, self.len);
    }
}

/// Delta-rule state and convolution history of one Gated DeltaNet layer, all slots, and the inputs
/// of rows that were set aside.
#[derive(Debug)]
pub struct GdnState {
    /// `[value_heads, key dim, value dim]`.
    pub(crate) s: PerSlot,
    /// `[kernel - 1, channels]`, oldest first.
    pub(crate) conv: PerSlot,
    /// Before the convolution `[deferred, channels]`.
    pub(crate) aside_m: PerSlot,
    /// After it `[deferred, channels]`.
    pub(crate) aside_qkv: PerSlot,
    /// `[deferred, value_heads]`.
    pub(crate) aside_alpha: PerSlot,
    /// `[deferred, value_heads]`.
    pub(crate) aside_beta: PerSlot,
}

impl GdnState {
    pub(crate) fn new(
        allocator: &Allocator,
        shape: &GdnShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self, Error> {
        let aside = |width: usize| {
            PerSlot::new(allocator, slots, deferred.saturating_mul(width), "rows set aside")
        };
        let (channels, heads) = (shape.channels(), shape.value_heads);
        Ok(Self {
            s: PerSlot::new(allocator, slots, shape.state_len(), "delta-rule states")?,
            conv: PerSlot::new(allocator, slots, shape.conv_len(), "convolution histories")?,
            aside_m: aside(channels)?,
            aside_qkv: aside(channels)?,
            aside_alpha: aside(heads)?,
            aside_beta: aside(heads)?,
        })
    }

    pub(crate) fn reset(&self, recorder: &mut Recorder, slot: usize) {
        self.s.clear(recorder, slot);
        self.conv.clear(recorder, slot);
    }
}

/// Convolution history of the n-gram features, all slots, and columns that were set aside.
#[derive(Debug)]
pub struct PleState {
    /// `[history, channels]`, oldest first.
    pub(crate) conv: PerSlot,
    /// `[deferred, channels]`.
    pub(crate) aside: PerSlot,
}

impl PleState {
    pub(crate) fn new(
        allocator: &Allocator,
        shape: &PleShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self, Error> {
        let aside = deferred.saturating_mul(shape.channels());
        Ok(Self {
            conv: PerSlot::new(allocator, slots, shape.conv_len(), "convolution histories")?,
            aside: PerSlot::new(allocator, slots, aside, "rows set aside")?,
        })
    }

    pub(crate) fn reset(&self, recorder: &mut Recorder, slot: usize) {
        self.conv.clear(recorder, slot);
    }
}

/// Keys, values and index keys of one sparse attention layer, all slots.
#[derive(Debug)]
pub struct QsaState {
    pub(crate) slots: Vec<KvCache>,
    pub(crate) context: usize,
    pub(crate) kv: KvType,
}

/// The cache of one slot; its buffers have room for `capacity` tokens.
#[derive(Debug, Default)]
pub(crate) struct KvCache {
    /// Tokens that it holds.
    pub(crate) len: usize,
    pub(crate) capacity: usize,
    /// `None` until room is asked for.
    pub(crate) buffers: Option<KvBuffers>,
}

/// What a cache holds, row by row.
#[derive(Debug)]
pub(crate) struct KvBuffers {
    /// Rotated keys, in the state's type, rows of whole words.
    pub(crate) k: GpuBuffer,
    /// Values, likewise.
    pub(crate) v: GpuBuffer,
    /// Raw index keys `[capacity, index_dim]`.
    pub(crate) index: GpuBuffer,
    /// Pooled keys `[capacity / block, index_dim]`.
    pub(crate) blocks: GpuBuffer,
}

impl QsaState {
    pub(crate) fn new(
        shape: &QsaShape,
        slots: usize,
        context: usize,
        kv: KvType,
    ) -> Result<Self, Error> {
        let head_dim = shape.head_dim;
        if !head_dim.is_multiple_of(kv.block()) {
            return Err(Error::KvWidth { kv, head_dim });
        }
        let slots = std::iter::repeat_with(KvCache::default).take(slots).collect();
        Ok(Self { slots, context, kv })
    }

    /// Words of a row of keys or of values.
    pub(crate) fn row_words(&self, shape: &QsaShape) -> usize {
        self.kv.bytes(shape.kv_dim()).div_ceil(4)
    }

    /// Makes room for `len` tokens, in steps, so that a long sequence is not copied for every
    /// token.
    pub(crate) fn reserve(
        &mut self,
        recorder: &mut Recorder,
        shape: &QsaShape,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        const STEP: usize = 256;
        let words = self.row_words(shape);
        let cache = &mut self.slots[slot];
        if len <= cache.capacity {
            return Ok(());
        }
        let grown = len.max(cache.capacity + cache.capacity / 2);
        let capacity = grown.next_multiple_of(STEP).min(self.context).max(len);
        let blocks = capacity.checked_div(shape.block).unwrap_or(0);
        let index_rows = if shape.block == 0 { 0 } else { capacity };
        let make = |rows: usize, width: usize| {
            recorder.allocator.storage(rows.saturating_mul(width), "keys and values")
        };
        let made = KvBuffers {
            k: make(capacity, words)?,
            v: make(capacity, words)?,
            index: make(index_rows, shape.index_dim)?,
            blocks: make(blocks, shape.index_dim)?,
        };
        if let Some(old) = &cache.buffers {
            let pairs = [
                (&old.k, &made.k),
                (&old.v, &made.v),
                (&old.index, &made.index),
                (&old.blocks, &made.blocks),
            ];
            for (from, to) in pairs {
                recorder.copy((from, 0), (to, 0), from.len());
            }
        }
        cache.buffers = Some(made);
        cache.capacity = capacity;
        Ok(())
    }

    /// What lies behind the end of a sequence is never read, so nothing needs clearing.
    pub(crate) fn reset(&mut self, slot: usize) {
        self.slots[slot] = KvCache::default();
    }
}

/// The cache positions that each row of a window attends.
#[derive(Debug, Default)]
pub struct Selection {
    /// Positions of all rows, one after the other; `None` before the first choice.
    pub(crate) positions: Option<GpuBuffer>,
}
