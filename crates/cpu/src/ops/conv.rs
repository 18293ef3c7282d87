//! Causal convolution per channel over the rows of a run and the history before them.

use crate::share::Shared;
use crate::simd::Kernels;
use crate::simd::elementwise::{AddTap, Silu, SiluOfFourTaps, Tap};
use kernels::window::Run;
use std::ops::Range;

/// Sizes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub(super) channels: usize,
    /// Taps.
    pub(super) kernel: usize,
    /// Tokens between taps.
    pub(super) dilation: usize,
}

/// The inputs of a run: row 0 is the oldest of the history, the run's rows follow it.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    conv: Conv,
    /// `[history rows, channels]` of the slot.
    history: Shared<'a, f32>,
    /// `[rows of the run, channels]`.
    current: &'a [f32],
}

impl<'a> Columns<'a> {
    /// `current` are the rows of all runs.
    pub(super) fn new(conv: Conv, history: &'a mut [f32], current: &'a [f32], run: &Run) -> Self {
        let rows = run.first_row * conv.channels..(run.first_row + run.len) * conv.channels;
        Self { conv, history: Shared::new(history), current: &current[rows] }
    }

    fn history_rows(&self) -> usize {
        (self.conv.kernel - 1) * self.conv.dilation
    }

    /// Channels `range` of row `row`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    unsafe fn row(&self, row: usize, range: &Range<usize>) -> &'a [f32] {
        let at = |row: usize| {
            row * self.conv.channels + range.start..row * self.conv.channels + range.end
        };
        match row.checked_sub(self.history_rows()) {
            Some(row) => &self.current[at(row)],
            // SAFETY: no other task touches these channels, and this one writes them only in
            // `advance`, when it has no row left.
            None => unsafe { self.history.slice(at(row)) },
        }
    }

    /// Channels `range` of the run's row `t`, convolved, through silu: `taps` is `[kernel, range]`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    pub(super) unsafe fn silu(
        &self,
        simd: &Kernels,
        taps: &[f32],
        (t, range): (usize, &Range<usize>),
        out: &mut [f32],
    ) {
        let tap = |k: usize| &taps[k * range.len()..][..range.len()];
        // SAFETY: passed on from the caller.
        let row = |k: usize| unsafe { self.row(t + k * self.conv.dilation, range) };
        if self.conv.kernel == 4 {
            let x = [tap(0), row(0), tap(1), row(1), tap(2), row(2), tap(3), row(3)];
            return simd.map(SiluOfFourTaps {}, x, out);
        }
        simd.map(Tap {}, [tap(0), row(0)], out);
        for k in 1..self.conv.kernel {
            simd.map(AddTap {}, [tap(k), row(k)], out);
        }
        simd.map(Silu { scale: 1.0 }, [], out);
    }

    /// Makes the run's newest rows the history, in the channels `range`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    pub(super) unsafe fn advance(&self, range: &Range<usize>) {
        let (channels, len) = (self.conv.channels, self.current.len() / self.conv.channels);
        for row in 0..self.history_rows() {
            let at = row * channels + range.start..row * channels + range.end;
            // SAFETY: no other task touches these channels; a row is read before it is written,
            // and never the row that is being written, since a run is not empty.
            unsafe { self.history.slice(at).copy_from_slice(self.row(row + len, range)) };
        }
    }
}
