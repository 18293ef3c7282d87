//! Gated DeltaNet.

use crate::device::Cpu;
use crate::share::Shared;
use crate::simd::{DeltaStep, inverse_root};
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::host::GdnState;
use kernels::scalar::{sigmoid, silu, softplus};
use kernels::{Gdn, GdnShape, Window};

/// Channels of the convolution per task.
const CHANNELS: usize = 256;

impl Gdn for Cpu {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &Vec<f32>,
        window: &Window,
        state: &mut GdnState,
        (m, out): (&Vec<f32>, &mut Vec<f32>),
    ) {
        let (channels, kernel) = (shape.channels(), shape.conv_kernel);
        let tasks = channels.div_ceil(CHANNELS);
        let out = Shared::new(&mut out[..window.rows() * channels]);
        for run in window.runs() {
            let history = Shared::new(state.conv_mut(run.slot));
            self.pool.run(tasks, &|task| {
                for c in task * CHANNELS..channels.min((task + 1) * CHANNELS) {
                    // SAFETY: a channel belongs to one task.
                    let past =
                        |k: usize| unsafe { history.slice(k * channels + c..k * channels + c + 1) };
                    let taps = &taps[c * kernel..][..kernel];
                    for t in run.rows() {
                        let current = m[t * channels + c];
                        let mut sum = 0.0;
                        for (k, tap) in taps[..kernel - 1].iter().enumerate() {
                            sum += tap * past(k)[0];
                        }
                        sum += taps[kernel - 1] * current;
                        // SAFETY: a channel belongs to one task.
                        unsafe { out.set(t * channels + c, silu(sum)) };
                        for k in 1..kernel - 1 {
                            past(k - 1)[0] = past(k)[0];
                        }
                        if kernel > 1 {
                            past(kernel - 2)[0] = current;
                        }
                    }
                }
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
        let GdnShape { key_heads, value_heads, head_dim: dim, eps, .. } = *shape;
        let (channels, key_dim) = (shape.channels(), key_heads * dim);
        let (simd, runs) = (self.simd, window.runs());
        let states = Shared::new(state.all_s_mut());
        let out = Shared::new(&mut o[..window.rows() * shape.value_dim()]);
        self.pool.run(runs.len() * value_heads, &|task| {
            let (run, j) = (&runs[task / value_heads], task % value_heads);
            let start = run.slot * shape.state_len() + j * dim * dim;
            // SAFETY: a head of a slot belongs to one task: a slot has one run.
            let s = unsafe { states.slice(start..start + dim * dim) };
            let mut work = vec![0.0; 3 * dim];
            let (q, rest) = work.split_at_mut(dim);
            let (k, d) = rest.split_at_mut(dim);
            for t in run.rows() {
                let qkv = &input.qkv[t * channels..][..channels];
                let head = j % key_heads * dim;
                let normalise = |x: &[f32], factor: f32, out: &mut [f32]| {
                    let scale = factor * inverse_root(simd.dot(x, x) + eps);
                    out.iter_mut().zip(x).for_each(|(o, x)| *o = x * scale);
                };
                normalise(&qkv[head..][..dim], 1.0 / (dim as f32).sqrt(), q);
                normalise(&qkv[key_dim + head..][..dim], 1.0, k);
                let gate = t * value_heads + j;
                let at = gate * dim;
                simd.delta(DeltaStep {
                    s,
                    q,
                    k,
                    v: &qkv[2 * key_dim + j * dim..][..dim],
                    decay: (input.a[j] * softplus(input.alpha[gate] + input.dt[j])).exp(),
                    beta: sigmoid(input.beta[gate]),
                    d,
                    // SAFETY: a head of a row belongs to one task.
                    o: unsafe { out.slice(at..at + dim) },
                });
            }
        });
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
        let out = Shared::new(&mut o[..rows * shape.value_dim()]);
        self.pool.run(rows * shape.value_heads, &|head| {
            // SAFETY: task `head` writes its head alone.
            let o = unsafe { out.slice(head * dim..(head + 1) * dim) };
            let scale = simd.rms_scale(o, eps);
            for ((o, &n), &z) in o.iter_mut().zip(norm).zip(&z[head * dim..][..dim]) {
                *o = *o * scale * n * sigmoid(z);
            }
        });
    }

    fn export_gdn(&mut self, state: &GdnState, slot: usize) -> GdnSlot {
        GdnSlot { s: state.s(slot).to_vec(), conv: state.conv(slot).to_vec() }
    }
}
