//! States of the recurrent and the attention layers: what is kept for each slot, and how a slot
//! becomes a fresh sequence.
#![allow(dead_code, reason = "the sequence families read what is kept here")]

use crate::buffer::{Allocator, GpuBuffer};
use crate::device::Gpu;
use crate::recorder::Recorder;
use crate::scratch::Scratch;
use kernels::{Error, GdnShape, KvType, PleShape, QsaShape};

/// An error unless `found` values are as many as the state has.
pub(crate) fn check_len(what: &'static str, found: usize, want: usize) -> Result<(), Error> {
    if found == want { Ok(()) } else { Err(Error::StateSize { what, want, found }) }
}

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

    /// Zeroes the first values of a slot.
    fn clear(&self, recorder: &mut Recorder, slot: usize, len: usize) {
        recorder.clear(&self.buffer, slot * self.len, len);
    }

    /// The first `len` values of a slot, or zeros and a fault that is kept.
    pub(crate) fn export(&self, gpu: &mut Gpu, slot: usize, len: usize) -> Vec<f32> {
        let mut values = vec![0.0; len];
        if let Some(copy) = gpu.scratch(Scratch::Export, len) {
            gpu.recorder.copy((&self.buffer, slot * self.len), (&copy, 0), len);
            let words = bytemuck::cast_slice_mut(&mut values);
            if let Err(error) = gpu.recorder.download(&copy, words) {
                gpu.recorder.faults.add(error);
            }
        }
        values
    }

    /// Puts values in place of a slot's first ones.
    pub(crate) fn import(&self, gpu: &mut Gpu, slot: usize, values: &[f32]) {
        let words = bytemuck::cast_slice(values);
        gpu.recorder.upload(words, &self.buffer, slot * self.len);
    }
}

/// Delta-rule state and convolution history of one Gated DeltaNet layer, all slots, and the inputs
/// of rows that were set aside.
#[derive(Debug)]
pub struct GdnState {
    /// `[value_heads, key dim, value dim]`, then two sides with room for rows set aside, each
    /// `[deferred, channels + 2 * value_heads]`: what the convolution made, alpha, beta.
    pub(crate) scan: PerSlot,
    /// `[kernel - 1, channels]`, oldest first, then `[deferred, channels]` set aside before the
    /// convolution.
    pub(crate) conv: PerSlot,
    /// Of each slot, the side that has its rows: the other one takes those of the next window,
    /// while these are still read.
    pub(crate) sides: Vec<u32>,
    /// Rows that may be set aside.
    pub(crate) deferred: usize,
    /// Values of a side.
    pub(crate) aside_len: usize,
    /// Values of a delta-rule state.
    pub(crate) s_len: usize,
    /// Values of a convolution history.
    pub(crate) conv_len: usize,
}

impl GdnState {
    pub(crate) fn new(
        allocator: &Allocator,
        shape: &GdnShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self, Error> {
        let (s_len, conv_len) = (shape.state_len(), shape.conv_len());
        let channels = shape.channels();
        let aside_len = deferred.saturating_mul(channels + 2 * shape.value_heads);
        let scan = s_len.saturating_add(aside_len.saturating_mul(2));
        let conv = conv_len.saturating_add(deferred.saturating_mul(channels));
        Ok(Self {
            scan: PerSlot::new(allocator, slots, scan, "delta-rule states")?,
            conv: PerSlot::new(allocator, slots, conv, "convolution histories")?,
            sides: vec![0; slots],
            deferred,
            aside_len,
            s_len,
            conv_len,
        })
    }

    pub(crate) fn reset(&self, recorder: &mut Recorder, slot: usize) {
        self.scan.clear(recorder, slot, self.s_len);
        self.conv.clear(recorder, slot, self.conv_len);
    }
}

/// Convolution history of the n-gram features, all slots, and columns that were set aside.
#[derive(Debug)]
pub struct PleState {
    /// `[history, channels]`, oldest first, then `[deferred, channels]` set aside.
    pub(crate) conv: PerSlot,
    pub(crate) slots: usize,
    /// Rows that may be set aside.
    pub(crate) deferred: usize,
    /// Values of a history.
    pub(crate) conv_len: usize,
}

impl PleState {
    pub(crate) fn new(
        allocator: &Allocator,
        shape: &PleShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self, Error> {
        let conv_len = shape.conv_len();
        let all = conv_len.saturating_add(deferred.saturating_mul(shape.channels()));
        let conv = PerSlot::new(allocator, slots, all, "convolution histories")?;
        Ok(Self { conv, slots, deferred, conv_len })
    }

    pub(crate) fn reset(&self, recorder: &mut Recorder, slot: usize) {
        self.conv.clear(recorder, slot, self.conv_len);
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
