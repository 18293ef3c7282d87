//! Gated DeltaNet: convolution, delta rule, gated output norm.

use super::{Reference, advance, dot, rms_norm};
use crate::gdn::{GdnInput, GdnSlot};
use crate::host::{AsideRows, GdnState};
use crate::scalar::{sigmoid, silu, softplus};
use crate::{Commit, Error, Gdn, GdnShape, Window};

impl Gdn for Reference {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &Vec<f32>,
        window: &Window,
        state: &mut GdnState,
        (m, out): (&Vec<f32>, &mut Vec<f32>),
    ) {
        let (channels, kernel) = (shape.channels(), shape.conv_kernel);
        for run in window.runs() {
            let (history, aside) = state.conv_mut(run.slot);
            for column in aside.chunks_exact(channels).take(run.replay) {
                advance(history, column);
            }
            let mut work = history.to_vec();
            for t in run.rows() {
                let current = &m[t * channels..][..channels];
                for c in 0..channels {
                    let past = |k: usize| work[k * channels + c];
                    let column = |k: usize| if k + 1 == kernel { current[c] } else { past(k) };
                    let tap = |k: usize| f64::from(taps[c * kernel + k]) * f64::from(column(k));
                    let sum: f64 = (0..kernel).map(tap).sum();
                    out[t * channels + c] = silu(sum as f32);
                }
                advance(&mut work, current);
            }
            match run.commit {
                Commit::Now => history.copy_from_slice(&work),
                Commit::Deferred => {
                    let rows = &m[run.first_row * channels..][..run.len * channels];
                    aside[..rows.len()].copy_from_slice(rows);
                }
            }
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
        let rows = AsideRows { qkv: input.qkv, alpha: input.alpha, beta: input.beta };
        let weights = (&input.a[..], &input.dt[..]);
        for run in window.runs() {
            let (states, aside) = state.scan_mut();
            let s = &mut states[run.slot * shape.state_len()..][..shape.state_len()];
            let mut unseen = vec![0.0; shape.value_dim()];
            for t in 0..run.replay {
                scan_row(shape, weights, (&aside.of(run.slot), t), s, &mut unseen);
            }
            let mut work = s.to_vec();
            for t in run.rows() {
                let o = &mut o[t * shape.value_dim()..][..shape.value_dim()];
                scan_row(shape, weights, (&rows, t), &mut work, o);
            }
            match run.commit {
                Commit::Now => s.copy_from_slice(&work),
                Commit::Deferred => state.set_aside(run, rows),
            }
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
        let d = shape.head_dim;
        let len = rows * shape.value_dim();
        for (o, z) in o[..len].chunks_exact_mut(d).zip(z.chunks_exact(d)) {
            let mut normed = vec![0.0; d];
            rms_norm(o, norm, shape.eps, &mut normed);
            for ((o, n), &z) in o.iter_mut().zip(normed).zip(z) {
                *o = n * sigmoid(z);
            }
        }
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

/// One row of all heads: `s` is `[value_heads, key, value]`, `o` is `[value_heads, value]`.
fn scan_row(
    shape: &GdnShape,
    (a, dt): (&[f32], &[f32]),
    (rows, t): (&AsideRows<'_>, usize),
    s: &mut [f32],
    o: &mut [f32],
) {
    let GdnShape { key_heads, value_heads, head_dim: d, eps, .. } = *shape;
    let (channels, key_dim) = (shape.channels(), key_heads * d);
    let qkv = &rows.qkv[t * channels..][..channels];
    for j in 0..value_heads {
        let key_head = j % key_heads * d;
        let mut q = l2_norm(&qkv[key_head..][..d], eps);
        let k = l2_norm(&qkv[key_dim + key_head..][..d], eps);
        let v = &qkv[2 * key_dim + j * d..][..d];
        q.iter_mut().for_each(|q| *q /= (d as f64).sqrt());

        let beta = f64::from(sigmoid(rows.beta[t * value_heads + j]));
        let alpha = rows.alpha[t * value_heads + j] + dt[j];
        let decay = f64::from(a[j] * softplus(alpha)).exp();

        let o = &mut o[j * d..][..d];
        delta_step(&mut s[j * d * d..][..d * d], (&q, &k, v), (decay, beta), o);
    }
}

/// `x / sqrt(sum(x^2) + eps)`.
fn l2_norm(x: &[f32], eps: f32) -> Vec<f64> {
    let scale = 1.0 / (dot(x, x) + f64::from(eps)).sqrt();
    x.iter().map(|&x| f64::from(x) * scale).collect()
}

/// One token of one head: `s` is `[key, value]`.
fn delta_step(
    s: &mut [f32],
    (q, k, v): (&[f64], &[f64], &[f32]),
    (decay, beta): (f64, f64),
    o: &mut [f32],
) {
    let d = v.len();
    for (column, o) in o.iter_mut().enumerate() {
        let at = |row: usize| row * d + column;
        let read: f64 = (0..d).map(|row| decay * f64::from(s[at(row)]) * k[row]).sum();
        let delta = beta * (f64::from(v[column]) - read);
        let mut sum = 0.0;
        for row in 0..d {
            let updated = decay * f64::from(s[at(row)]) + k[row] * delta;
            s[at(row)] = updated as f32;
            sum += updated * q[row];
        }
        *o = sum as f32;
    }
}
