//! Hashed n-gram features.

use crate::device::{Cpu, CpuMatrix, room};
use kernels::host::PleState;
use kernels::ple::PleInput;
use kernels::scalar::{ple_gate, silu};
use kernels::{Ple, PleShape, PleWeights, Window};

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
        let PleShape { streams, width, kernel, dilation, eps } = *shape;
        let (wide, simd) = (shape.channels(), self.simd);
        let (k, q) = room(&mut self.work.a, 2 * width).split_at_mut(width);
        let (z, c) = room(&mut self.work.b, 2 * wide).split_at_mut(wide);
        for run in window.runs() {
            let history = input.state.conv_mut(run.slot);
            for t in run.rows() {
                let x = &mut x[t * wide..][..wide];
                let value = &input.value[t * width..][..width];
                for s in 0..streams {
                    let part = s * width..(s + 1) * width;
                    let key = &input.key[t * wide..][part.clone()];
                    simd.rms_norm(key, &w.norm_key[part.clone()], eps, k);
                    simd.rms_norm(&x[part.clone()], &w.norm_query[part.clone()], eps, q);
                    let gate = ple_gate(simd.dot(k, q) / (width as f32).sqrt());
                    let z = &mut z[part.clone()];
                    z.iter_mut().zip(value).for_each(|(z, &v)| *z = gate * v);
                    simd.rms_norm(z, &w.norm_conv[part.clone()], eps, &mut c[part]);
                }
                for i in 0..wide {
                    let taps = &w.taps[i * kernel..][..kernel];
                    let mut sum = 0.0;
                    for j in 0..kernel - 1 {
                        sum += taps[j] * history[j * dilation * wide + i];
                    }
                    sum += taps[kernel - 1] * c[i];
                    x[i] += z[i] + silu(sum);
                }
                if !history.is_empty() {
                    history.copy_within(wide.., 0);
                    let newest = history.len() - wide;
                    history[newest..].copy_from_slice(c);
                }
            }
        }
    }

    fn export_ple(&mut self, state: &PleState, slot: usize) -> Vec<f32> {
        state.conv(slot).to_vec()
    }
}
