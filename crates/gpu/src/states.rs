//! States of the recurrent layers: what is kept for each slot, and how a slot becomes a fresh
//! sequence.
#![allow(dead_code, reason = "the sequence families read what is kept here")]

use crate::buffer::{Allocator, GpuBuffer};
use crate::recorder::Recorder;
use kernels::{Error, GdnShape, PleShape};

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
