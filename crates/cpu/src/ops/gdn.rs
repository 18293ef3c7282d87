//! Gated DeltaNet.

use super::conv::{Columns, Conv};
use super::spread::{part, spread};
use crate::device::{Cpu, aligned_room, room};
use crate::share::Shared;
use crate::simd::elementwise::{GatedNormalise, Scale};
use crate::simd::{DELTA_WORK, DeltaGate, DeltaRun, Kernels, inverse_root};
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::host::{AsideRows, GdnState};
use kernels::scalar::{sigmoid, softplus};
use kernels::{Commit, Error, Gdn, GdnShape, Window};
use std::cell::RefCell;
use std::ops::Range;

/// Channels of the convolution per task.
const CHANNELS: usize = 512;

/// Tokens whose keys, queries and values a head prepares at a time: they stay in the cache beside
/// its state.
const TOKENS: usize = 32;

/// Heads per task of the output gate.
const HEADS: usize = 8;

thread_local! {
    /// Values of the running task.
    static VALUES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Gdn for Cpu {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &Vec<f32>,
        window: &Window,
        state: &mut GdnState,
        (m, out): (&Vec<f32>, &mut Vec<f32>),
    ) {
        let (channels, kernel, simd) = (shape.channels(), shape.conv_kernel, self.simd);
        let conv = Conv { channels, kernel, dilation: 1 };
        let out = Shared::new(&mut out[..window.rows() * channels]);
        for run in window.runs() {
            let (history, aside) = state.conv_mut(run.slot);
            let columns = Columns::new(conv, (history, aside), m, run);
            let tasks = channels.div_ceil(CHANNELS);
            spread(&mut self.pool, 4 * (run.len + run.replay) * channels, tasks, &|task| {
                let range = part(channels, CHANNELS, task);
                // SAFETY: a channel belongs to one task.
                unsafe { columns.replay(&range) };
                VALUES.with_borrow_mut(|values| {
                    let turned = room(values, kernel * range.len());
                    simd.transpose_taps(
                        &taps[range.start * kernel..range.end * kernel],
                        kernel,
                        turned,
                    );
                    for t in 0..run.len {
                        let at = (run.first_row + t) * channels;
                        // SAFETY: a channel belongs to one task.
                        unsafe {
                            let out = out.slice(at + range.start..at + range.end);
                            columns.silu(&simd, turned, (t, &range), out);
                        }
                    }
                });
                // SAFETY: a channel belongs to one task.
                unsafe { columns.commit(&range) };
            });
        }
    }

    fn gdn_scan(
        &mut self,
        shape: &GdnShape,
        window: &Window,
        input: GdnInput<'_, Vec<f32>, Vec<f32>>,
        state: &mut GdnState,
        o: &mut Vec<f32>,
    ) {
        let GdnShape { value_heads, head_dim: dim, .. } = *shape;
        let (simd, runs) = (self.simd, window.runs());
        let rows = AsideRows { qkv: input.qkv, alpha: input.alpha, beta: input.beta };
        let (states, aside) = state.scan_mut();
        let states = Shared::new(states);
        let out = Shared::new(&mut o[..window.rows() * shape.value_dim()]);
        self.pool.run(runs.len() * value_heads, &|task| {
            let (run, j) = (&runs[task / value_heads], task % value_heads);
            let start = run.slot * shape.state_len() + j * dim * dim;
            // SAFETY: a head of a slot belongs to one task: a slot has one run.
            let s = unsafe { states.slice(start..start + dim * dim) };
            let head = Head { shape, j, simd, a: input.a[j], dt: input.dt[j] };
            VALUES.with_borrow_mut(|values| {
                let (mut again, mut own) = (0..run.replay, run.rows());
                while !again.is_empty() || !own.is_empty() {
                    let first = own.start;
                    let tokens = Tokens {
                        again: take(&mut again, TOKENS),
                        own: take(&mut own, TOKENS - run.replay.min(TOKENS)),
                        commit: run.commit,
                    };
                    let count = tokens.own.len();
                    let outputs = head.scan((&aside.of(run.slot), &rows), &tokens, s, values);
                    for (t, o) in (first..first + count).zip(outputs) {
                        let at = (t * value_heads + j) * dim;
                        // SAFETY: a head of a row belongs to one task.
                        unsafe { out.slice(at..at + dim) }.copy_from_slice(o);
                    }
                }
            });
        });
        for run in runs.iter().filter(|run| run.commit == Commit::Deferred) {
            state.set_aside(run, rows);
        }
    }

    fn gdn_output_gate(
        &mut self,
        shape: &GdnShape,
        norm: &Vec<f32>,
        z: &Vec<f32>,
        rows: usize,
        o: &mut Vec<f32>,
    ) {
        let (dim, eps, simd) = (shape.head_dim, shape.eps, self.simd);
        let heads = rows * shape.value_heads;
        let out = Shared::new(&mut o[..heads * dim]);
        spread(&mut self.pool, 4 * heads * dim, heads.div_ceil(HEADS), &|task| {
            for head in part(heads, HEADS, task) {
                // SAFETY: a head belongs to one task.
                let o = unsafe { out.slice(head * dim..(head + 1) * dim) };
                let scale = simd.rms_scale(o, eps);
                simd.map(GatedNormalise { scale }, [norm, &z[head * dim..][..dim]], o);
            }
        });
    }

    fn export_gdn(&mut self, state: &GdnState, slot: usize) -> GdnSlot {
        GdnSlot { s: state.s(slot).to_vec(), conv: state.conv(slot).to_vec() }
    }

    fn import_gdn(
        &mut self,
        state: &mut GdnState,
        slot: usize,
        from: &GdnSlot,
    ) -> Result<(), Error> {
        state.import(slot, from)
    }
}

/// Tokens that a head goes through at a time.
struct Tokens {
    /// Of those set aside, the ones that enter the state first.
    again: Range<usize>,
    /// Rows of the window.
    own: Range<usize>,
    /// Whether they enter it, too.
    commit: Commit,
}

/// The first `count` of `range` at most, which loses them.
fn take(range: &mut Range<usize>, count: usize) -> Range<usize> {
    let first = range.start..range.end.min(range.start + count);
    range.start = first.end;
    first
}

/// Value head `j` of a layer.
struct Head<'a> {
    shape: &'a GdnShape,
    j: usize,
    simd: Kernels,
    a: f32,
    dt: f32,
}

impl Head<'_> {
    /// Takes the head's state `s` through at most [`TOKENS`] tokens of those set aside and of the
    /// window; the outputs of the window's rows.
    fn scan<'v>(
        &self,
        (aside, rows): (&AsideRows<'_>, &AsideRows<'_>),
        tokens: &Tokens,
        s: &mut [f32],
        values: &'v mut Vec<f32>,
    ) -> impl Iterator<Item = &'v [f32]> + use<'v> {
        let GdnShape { head_dim: dim, .. } = *self.shape;
        let (again, own) = (tokens.again.clone(), tokens.own.clone());
        let (replayed, count) = (again.len(), again.len() + own.len());
        let len = count * dim;
        let work = dim * DELTA_WORK;
        let (work, rest) = aligned_room(values, work + 4 * len).split_at_mut(work);
        let (q, rest) = rest.split_at_mut(len);
        let (k, rest) = rest.split_at_mut(len);
        let (v, o) = rest.split_at_mut(len);
        let mut gates = [DeltaGate { decay: 0.0, beta: 0.0 }; TOKENS];
        let inputs = again.map(|t| (aside, t)).chain(own.map(|t| (rows, t)));
        for (i, (input, t)) in inputs.enumerate() {
            let own = i * dim..(i + 1) * dim;
            gates[i] =
                self.prepare((input, t), [&mut q[own.clone()], &mut k[own.clone()], &mut v[own]]);
        }
        let commit = match tokens.commit {
            Commit::Now => count,
            Commit::Deferred => replayed,
        };
        let gates = &gates[..count];
        self.simd.run(DeltaRun { s, commit, dim, q, k, v, gates, o: &mut *o, work });
        o.chunks_exact(dim).skip(replayed)
    }

    /// Query, key and value of row `t`, and its gate.
    fn prepare(
        &self,
        (input, t): (&AsideRows<'_>, usize),
        [q, k, v]: [&mut [f32]; 3],
    ) -> DeltaGate {
        let GdnShape { key_heads, value_heads, head_dim: dim, eps, .. } = *self.shape;
        let (channels, key_dim, simd) = (self.shape.channels(), key_heads * dim, &self.simd);
        let normalise = |x: &[f32], factor: f32, out: &mut [f32]| {
            let scale = factor * inverse_root(simd.dot(x, x) + eps);
            simd.map(Scale { scale }, [x], out);
        };
        let qkv = &input.qkv[t * channels..][..channels];
        let head = self.j % key_heads * dim;
        normalise(&qkv[head..][..dim], 1.0 / (dim as f32).sqrt(), q);
        normalise(&qkv[key_dim + head..][..dim], 1.0, k);
        v.copy_from_slice(&qkv[2 * key_dim + self.j * dim..][..dim]);
        let at = t * value_heads + self.j;
        let alpha = softplus(input.alpha[at] + self.dt);
        DeltaGate { decay: (self.a * alpha).exp(), beta: sigmoid(input.beta[at]) }
    }
}
