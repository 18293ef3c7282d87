//! Hashed n-gram features.

use super::{Reference, advance, dot, rms_norm};
use crate::host::PleState;
use crate::ple::PleInput;
use crate::scalar::{ple_gate, silu};
use crate::{Commit, Error, Ple, PleShape, PleWeights, Weight, Window};

impl Ple for Reference {
    fn ple_gather(&mut self, table: &Weight, ids: &[u64], e: &mut Vec<f32>) {
        for (&id, row) in ids.iter().zip(e.chunks_exact_mut(table.n_in())) {
            table.decode_row(id as usize, row);
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
        let PleShape { streams, width, kernel, dilation, eps } = *shape;
        let wide = shape.channels();
        for run in window.runs() {
            let (history, aside) = input.state.conv_mut(run.slot);
            for column in aside.chunks_exact(wide).take(run.replay) {
                advance(history, column);
            }
            let mut work = history.to_vec();
            for (i, t) in run.rows().enumerate() {
                let value = &input.value[t * width..][..width];
                let (mut z, mut c) = (vec![0.0; wide], vec![0.0; wide]);
                for s in 0..streams {
                    let part = s * width..(s + 1) * width;
                    let (mut k, mut q) = (vec![0.0; width], vec![0.0; width]);
                    let key = &input.key[t * wide..][part.clone()];
                    rms_norm(key, &w.norm_key[part.clone()], eps, &mut k);
                    rms_norm(
                        &x[t * wide..][part.clone()],
                        &w.norm_query[part.clone()],
                        eps,
                        &mut q,
                    );
                    let gate = ple_gate((dot(&k, &q) / (width as f64).sqrt()) as f32);
                    for (z, &v) in z[part.clone()].iter_mut().zip(value) {
                        *z = gate * v;
                    }
                    rms_norm(&z[part.clone()], &w.norm_conv[part.clone()], eps, &mut c[part]);
                }
                for i in 0..wide {
                    let column = |j: usize| match j + 1 == kernel {
                        true => c[i],
                        false => work[j * dilation * wide + i],
                    };
                    let tap = |j: usize| f64::from(w.taps[i * kernel + j]) * f64::from(column(j));
                    let sum: f64 = (0..kernel).map(tap).sum();
                    x[t * wide + i] += z[i] + silu(sum as f32);
                }
                advance(&mut work, &c);
                if run.commit == Commit::Deferred {
                    aside[i * wide..][..wide].copy_from_slice(&c);
                }
            }
            if run.commit == Commit::Now {
                history.copy_from_slice(&work);
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
