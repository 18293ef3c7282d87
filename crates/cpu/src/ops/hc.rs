//! Hyper-connections.

use crate::device::{Cpu, CpuMatrix, room};
use crate::share::Shared;
use kernels::hc::HcRead;
use kernels::scalar::{sigmoid, silu};
use kernels::{Hc, HcShape, HcWeights};

/// Columns of the residual per task.
const COLUMNS: usize = 256;

impl Hc for Cpu {
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, CpuMatrix, Vec<f32>>,
        x: &Vec<f32>,
        rows: usize,
        out: HcRead<'_, Vec<f32>>,
    ) {
        let HcShape { streams, width, eps } = *shape;
        let (wide, rank) = (streams * width, w.down.weight.n_out());
        let by_streams = 1.0 / streams as f32;
        // Taken out of `self` so that the pool can be used beside them.
        let mut work = std::mem::take(&mut self.work);
        let n = room(&mut work.a, rows * wide);
        let low = room(&mut work.b, rows * rank);
        let gate = room(&mut work.c, rows * wide);

        // Each stream normalised by itself.
        let (simd, shared) = (self.simd, Shared::new(n));
        self.pool.run(rows * streams, &|i| {
            // SAFETY: task `i` writes stream `i` alone.
            let n = unsafe { shared.slice(i * width..(i + 1) * width) };
            let norm = &w.norm[i % streams * width..][..width];
            simd.rms_norm(&x[i * width..][..width], norm, eps, n);
        });

        self.multiply(w.down, n, rows, low);
        low.iter_mut().for_each(|v| *v = silu(*v * by_streams));
        self.multiply(w.up, low, rows, gate);

        let (shared, tasks) = (Shared::new(&mut out.u[..rows * width]), width.div_ceil(COLUMNS));
        let (n, gate) = (&*n, &*gate);
        self.pool.run(rows * tasks, &|task| {
            let (t, first) = (task / tasks, task % tasks * COLUMNS);
            let len = COLUMNS.min(width - first);
            // SAFETY: a task writes its columns of its row alone.
            let u = unsafe { shared.slice(t * width + first..t * width + first + len) };
            u.fill(0.0);
            for s in 0..streams {
                let at = t * wide + s * width + first;
                for ((u, &g), &n) in u.iter_mut().zip(&gate[at..][..len]).zip(&n[at..][..len]) {
                    *u += sigmoid(g) * n;
                }
            }
            u.iter_mut().for_each(|u| *u *= by_streams);
        });

        if let Some(inject) = w.inject {
            self.multiply(inject, n, rows, out.weights);
            for v in &mut out.weights[..rows * streams] {
                *v = 2.0 * sigmoid(*v * by_streams);
            }
        }
        self.work = work;
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
        let (simd, shared) = (self.simd, Shared::new(&mut x[..rows * streams * width]));
        self.pool.run(rows, &|t| {
            for s in 0..streams {
                let at = (t * streams + s) * width;
                // SAFETY: task `t` writes row `t` alone.
                let x = unsafe { shared.slice(at..at + width) };
                simd.axpy(weights[t * streams + s], &y[t * width..][..width], x);
            }
        });
    }
}
