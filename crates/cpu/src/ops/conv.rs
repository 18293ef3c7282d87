//! Causal convolution per channel over the rows of a run and the history before them.

use crate::share::Shared;
use crate::simd::Kernels;
use crate::simd::elementwise::{AddTap, Silu, SiluOfFourTaps, Tap};
use kernels::{Commit, Run};
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
    /// Rows that the slot set aside `[.., channels]`.
    aside: Shared<'a, f32>,
    /// How many of them enter the history first.
    replay: usize,
    commit: Commit,
    /// `[rows of the run, channels]`.
    current: &'a [f32],
}

impl<'a> Columns<'a> {
    /// `current` are the rows of all runs; history and rows set aside are those of `run`'s slot.
    pub(super) fn new(
        conv: Conv,
        (history, aside): (&'a mut [f32], &'a mut [f32]),
        current: &'a [f32],
        run: &Run,
    ) -> Self {
        let rows = run.first_row * conv.channels..(run.first_row + run.len) * conv.channels;
        Self {
            conv,
            history: Shared::new(history),
            aside: Shared::new(aside),
            replay: run.replay,
            commit: run.commit,
            current: &current[rows],
        }
    }

    fn history_rows(&self) -> usize {
        (self.conv.kernel - 1) * self.conv.dilation
    }

    /// Where the channels `range` of row `row` are.
    fn at(&self, row: usize, range: &Range<usize>) -> Range<usize> {
        row * self.conv.channels + range.start..row * self.conv.channels + range.end
    }

    /// Channels `range` of row `row`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    unsafe fn row(&self, row: usize, range: &Range<usize>) -> &'a [f32] {
        let at = |row: usize| self.at(row, range);
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

    /// Makes the rows set aside that count a part of the history, in the channels `range`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    pub(super) unsafe fn replay(&self, range: &Range<usize>) {
        if self.replay > 0 {
            // SAFETY: passed on from the caller; a row is set aside before it is replayed.
            unsafe {
                self.shift(range, self.replay, |row| self.aside.slice(self.at(row, range)));
            }
        }
    }

    /// Makes the run's newest rows the history, or sets the run's rows aside, in the channels
    /// `range`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    pub(super) unsafe fn commit(&self, range: &Range<usize>) {
        let len = self.current.len() / self.conv.channels;
        match self.commit {
            // SAFETY: passed on from the caller.
            Commit::Now if len > 0 => unsafe {
                self.shift(range, len, |row| &self.current[self.at(row, range)]);
            },
            Commit::Now => {}
            Commit::Deferred => {
                for row in 0..len {
                    let at = self.at(row, range);
                    // SAFETY: passed on from the caller.
                    unsafe { self.aside.slice(at.clone()) }.copy_from_slice(&self.current[at]);
                }
            }
        }
    }

    /// Drops the `len` oldest rows of the history and appends `newest(0..len)`.
    ///
    /// # Safety
    /// The channels belong to the running task.
    unsafe fn shift(&self, range: &Range<usize>, len: usize, newest: impl Fn(usize) -> &'a [f32]) {
        let rows = self.history_rows();
        for row in 0..rows {
            let from = row + len;
            // SAFETY: no other task touches these channels; a row is read before it is written,
            // and never the row that is being written, since `len` is not 0.
            unsafe {
                let from = match from.checked_sub(rows) {
                    Some(new) => newest(new),
                    None => self.history.slice(self.at(from, range)),
                };
                self.history.slice(self.at(row, range)).copy_from_slice(from);
            }
        }
    }
}
