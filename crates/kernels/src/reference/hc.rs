//! Hyper-connections.

use super::{Reference, rms_norm};
use crate::hc::HcRead;
use crate::scalar::{sigmoid, silu};
use crate::{Gemv, Hc, HcShape, HcWeights, Weight};

impl Hc for Reference {
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Weight, Vec<f32>>,
        x: &Vec<f32>,
        rows: usize,
        out: HcRead<'_, Vec<f32>>,
    ) {
        let HcShape { streams, width, eps } = *shape;
        let (wide, rank) = (streams * width, w.down.n_out());
        let by_streams = 1.0 / streams as f32;

        let mut n = vec![0.0; rows * wide];
        for (i, (x, n)) in x.chunks_exact(width).zip(n.chunks_exact_mut(width)).enumerate() {
            let s = i % streams;
            rms_norm(x, &w.norm[s * width..][..width], eps, n);
        }

        let mut low = vec![0.0; rows * rank];
        self.matmul(w.down, &n, rows, &mut low);
        low.iter_mut().for_each(|v| *v = silu(*v * by_streams));

        let mut gate = vec![0.0; rows * wide];
        self.matmul(w.up, &low, rows, &mut gate);
        for t in 0..rows {
            for i in 0..width {
                let at = |s: usize| t * wide + s * width + i;
                let sum: f32 = (0..streams).map(|s| sigmoid(gate[at(s)]) * n[at(s)]).sum();
                out.u[t * width + i] = sum * by_streams;
            }
        }

        if let Some(inject) = w.inject {
            self.matmul(inject, &n, rows, out.weights);
            for v in &mut out.weights[..rows * streams] {
                *v = 2.0 * sigmoid(*v * by_streams);
            }
        }
    }

    fn hc_inject(
        &mut self,
        shape: &HcShape,
        weights: &Vec<f32>,
        y: &Vec<f32>,
        rows: usize,
        x: &mut Vec<f32>,
    ) {
        let HcShape { streams, width, .. } = *shape;
        for t in 0..rows {
            for s in 0..streams {
                let weight = weights[t * streams + s];
                for i in 0..width {
                    x[(t * streams + s) * width + i] += weight * y[t * width + i];
                }
            }
        }
    }
}
