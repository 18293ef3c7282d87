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
use kernels::{Commit, Gdn, GdnShape, Window};
use std::cell::RefCell;

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
    /// A head's state under rows that are not committed.
    static WORK: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
                for first in (0..run.replay).step_by(TOKENS) {
                    let again = first..(first + TOKENS).min(run.replay);
                    drop(head.scan(&aside.of(run.slot), again, s, values));
                }
                WORK.with_borrow_mut(|work| {
                    let s = match run.commit {
                        Commit::Now => s,
                        // The rows see the state with each other's steps, and leave it as it was.
                        Commit::Deferred => {
                            let copy = aligned_room(work, s.len());
                            copy.copy_from_slice(s);
                            copy
                        }
                    };
                    for first in run.rows().step_by(TOKENS) {
                        let own = first..(first + TOKENS).min(run.first_row + run.len);
                        for (t, o) in own.clone().zip(head.scan(&rows, own, s, values)) {
                            let at = (t * value_heads + j) * dim;
                            // SAFETY: a head of a row belongs to one task.
                            unsafe { out.slice(at..at + dim) }.copy_from_slice(o);
                        }
                    }
                });
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
    /// Advances the head's state `s` over at most [`TOKENS`] rows; the outputs of the rows.
    fn scan<'v>(
        &self,
        input: &AsideRows<'_>,
        rows: std::ops::Range<usize>,
        s: &mut [f32],
        values: &'v mut Vec<f32>,
    ) -> impl Iterator<Item = &'v [f32]> + use<'v> {
        let GdnShape { key_heads, value_heads, head_dim: dim, eps, .. } = *self.shape;
        let (channels, key_dim, simd) = (self.shape.channels(), key_heads * dim, &self.simd);
        let normalise = |x: &[f32], factor: f32, out: &mut [f32]| {
            let scale = factor * inverse_root(simd.dot(x, x) + eps);
            simd.map(Scale { scale }, [x], out);
        };
        let len = rows.len() * dim;
        let work = dim * DELTA_WORK;
        let (work, rest) = aligned_room(values, work + 4 * len).split_at_mut(work);
        let (q, rest) = rest.split_at_mut(len);
        let (k, rest) = rest.split_at_mut(len);
        let (v, o) = rest.split_at_mut(len);
        let mut gates = [DeltaGate { decay: 0.0, beta: 0.0 }; TOKENS];
        for (i, t) in rows.clone().enumerate() {
            let qkv = &input.qkv[t * channels..][..channels];
            let (head, own) = (self.j % key_heads * dim, i * dim..(i + 1) * dim);
            normalise(&qkv[head..][..dim], 1.0 / (dim as f32).sqrt(), &mut q[own.clone()]);
            normalise(&qkv[key_dim + head..][..dim], 1.0, &mut k[own.clone()]);
            v[own].copy_from_slice(&qkv[2 * key_dim + self.j * dim..][..dim]);
            let at = t * value_heads + self.j;
            let alpha = softplus(input.alpha[at] + self.dt);
            let decay = (self.a * alpha).exp();
            gates[i] = DeltaGate { decay, beta: sigmoid(input.beta[at]) };
        }
        let gates = &gates[..rows.len()];
        simd.run(DeltaRun { s, dim, q, k, v, gates, o: &mut *o, work });
        o.chunks_exact(dim)
    }
}
