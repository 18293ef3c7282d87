//! Hashed n-gram features.

use super::conv::{Columns, Conv};
use super::spread::{part, spread};
use crate::device::{Cpu, CpuMatrix, room};
use crate::share::Shared;
use crate::simd::Kernels;
use crate::simd::elementwise::{AddScaledAnd, Scale};
use kernels::host::PleState;
use kernels::ple::PleInput;
use kernels::scalar::ple_gate;
use kernels::{Commit, Error, Ple, PleShape, PleWeights, Run, Window};
use std::cell::RefCell;

/// Rows whose convolution inputs are kept at a time.
const ROWS: usize = 32;

/// Channels of the convolution per task; a task's channels belong to one stream.
const CHANNELS: usize = 512;

thread_local! {
    /// Values of the running task.
    static VALUES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Ple for Cpu {
    fn ple_gather(&mut self, table: &CpuMatrix, ids: &[u64], e: &mut Vec<f32>) {
        for (&id, row) in ids.iter().zip(e.chunks_exact_mut(table.weight.n_in())) {
            self.simd.decode(table.decoder, table.weight.row(id as usize), row);
        }
    }

    fn ple_mix(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, Vec<f32>>,
        window: &Window,
        input: PleInput<'_, Vec<f32>, PleState>,
        x: &mut Vec<f32>,
    ) {
        let PleInput { key, value, state } = input;
        let mix = Mix { shape, w, key, value, simd: self.simd };
        let gates = room(&mut self.work.a, ROWS * shape.streams);
        let c = room(&mut self.work.b, ROWS * shape.channels());
        for run in window.runs() {
            for rows in portions(run) {
                let Run { first_row, len, .. } = rows;
                let (shared_gates, shared_c) = (Shared::new(gates), Shared::new(c));
                let operations = 4 * (len + rows.replay) * shape.channels();
                spread(&mut self.pool, operations, len * shape.streams, &|task| {
                    let own = task * shape.width..(task + 1) * shape.width;
                    // SAFETY: a stream of a row belongs to one task.
                    unsafe {
                        shared_gates.set(task, mix.gate(first_row, task, x, shared_c.slice(own)));
                    }
                });
                let (history, aside) = state.conv_mut(run.slot);
                let own = Run { first_row: 0, ..rows };
                let columns = Columns::new(mix.conv(), (history, aside), c, &own);
                let parts = shape.width.div_ceil(CHANNELS);
                let shared_x = Shared::new(x);
                spread(&mut self.pool, operations, shape.streams * parts, &|task| {
                    let own = part(shape.width, CHANNELS, task % parts);
                    mix.add(&rows, (task / parts, own), (gates, &columns), &shared_x);
                });
            }
        }
    }

    fn export_ple(&mut self, state: &PleState, slot: usize) -> Vec<f32> {
        state.conv(slot).to_vec()
    }

    fn import_ple(&mut self, state: &mut PleState, slot: usize, from: &[f32]) -> Result<(), Error> {
        state.import(slot, from)
    }
}

/// The run in parts of at most [`ROWS`] rows; what it replays comes before the first.
///
/// # Panics
/// If a deferred run has more than one part.
fn portions(run: &Run) -> impl Iterator<Item = Run> + use<> {
    let run = *run;
    assert!(run.commit == Commit::Now || run.len <= ROWS, "{} deferred rows", run.len);
    (0..run.len.div_ceil(ROWS).max(1)).map(move |part| {
        let (first_row, replay) =
            (run.first_row + part * ROWS, if part == 0 { run.replay } else { 0 });
        Run { first_row, len: ROWS.min(run.first_row + run.len - first_row), replay, ..run }
    })
}

/// A call's operands.
struct Mix<'a> {
    shape: &'a PleShape,
    w: &'a PleWeights<'a, Vec<f32>>,
    key: &'a [f32],
    value: &'a [f32],
    simd: Kernels,
}

impl Mix<'_> {
    fn conv(&self) -> Conv {
        let PleShape { kernel, dilation, .. } = *self.shape;
        Conv { channels: self.shape.channels(), kernel, dilation }
    }

    /// The gate of stream `i` counted from row `first_row`, and its convolution input `c`.
    fn gate(&self, first_row: usize, i: usize, x: &[f32], c: &mut [f32]) -> f32 {
        let Self { shape: PleShape { streams, width, eps, .. }, w, simd, .. } = self;
        let (t, s) = (first_row + i / streams, i % streams);
        let part = s * width..(s + 1) * width;
        let at = (t * streams + s) * width;
        VALUES.with_borrow_mut(|values| {
            let (k, q) = room(values, 2 * width).split_at_mut(*width);
            simd.rms_norm(&self.key[at..at + width], &w.norm_key[part.clone()], *eps, k);
            simd.rms_norm(&x[at..at + width], &w.norm_query[part.clone()], *eps, q);
            let gate = ple_gate(simd.dot(k, q) / (*width as f32).sqrt());
            simd.map(Scale { scale: gate }, [&self.value[t * width..][..*width]], k);
            simd.rms_norm(k, &w.norm_conv[part], *eps, c);
            gate
        })
    }

    /// Convolves the columns `own` of stream `s` and adds them to `x` in all rows of `run`.
    fn add(
        &self,
        run: &Run,
        (s, own): (usize, std::ops::Range<usize>),
        (gates, columns): (&[f32], &Columns<'_>),
        x: &Shared<'_, f32>,
    ) {
        let PleShape { streams, width, kernel, .. } = *self.shape;
        let channels = s * width + own.start..s * width + own.end;
        // SAFETY: a channel belongs to one task.
        unsafe { columns.replay(&channels) };
        VALUES.with_borrow_mut(|values| {
            let (taps, mixed) =
                room(values, (kernel + 1) * own.len()).split_at_mut(kernel * own.len());
            let raw = &self.w.taps[channels.start * kernel..channels.end * kernel];
            self.simd.transpose_taps(raw, kernel, taps);
            for i in 0..run.len {
                // SAFETY: a channel belongs to one task.
                unsafe { columns.silu(&self.simd, taps, (i, &channels), mixed) };
                let t = run.first_row + i;
                let value = &self.value[t * width + own.start..t * width + own.end];
                let at = t * streams * width;
                // SAFETY: a channel belongs to one task.
                let x = unsafe { x.slice(at + channels.start..at + channels.end) };
                self.simd.map(AddScaledAnd { factor: gates[i * streams + s] }, [value, mixed], x);
            }
        });
        // SAFETY: a channel belongs to one task.
        unsafe { columns.commit(&channels) };
    }
}
