//! States of the recurrent layers: what is kept for each slot, and how a slot becomes a fresh
//! sequence.

use crate::buffer::{Allocator, GpuBuffer};
use crate::device::Gpu;
use crate::recorder::Recorder;
use crate::scratch::Scratch;
use kernels::{Error, GdnShape, PleShape};

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
