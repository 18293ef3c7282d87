//! Hyper-connections.

use crate::device::{Cpu, CpuMatrix, room};
use crate::ops::spread::{part, spread};
use crate::share::Shared;
use crate::simd::elementwise::{AddGated, AddScaled, Gated, ScaleOld, Sigmoid, Silu};
use kernels::hc::HcRead;
use kernels::{Hc, HcShape, HcWeights};

/// Columns of the residual per task.
const COLUMNS: usize = 512;

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
        // Taken out of `self` so that products can be computed beside them; those need the rest.
        let [mut a, mut b, mut c] =
            [&mut self.work.a, &mut self.work.b, &mut self.work.c].map(std::mem::take);
        let n = room(&mut a, rows * wide);
        let low = room(&mut b, rows * rank);
        let gate = room(&mut c, rows * wide);

        // Each stream normalised by itself.
        let (simd, shared) = (self.simd, Shared::new(n));
        spread(&mut self.pool, rows * wide, rows * streams, &|i| {
            // SAFETY: task `i` writes stream `i` alone.
            let n = unsafe { shared.slice(i * width..(i + 1) * width) };
            let norm = &w.norm[i % streams * width..][..width];
            simd.rms_norm(&x[i * width..][..width], norm, eps, n);
        });

        self.multiply(w.down, n, rows, low);
        simd.map(Silu { scale: by_streams }, [], low);
        self.multiply(w.up, low, rows, gate);

        let (shared, tasks) = (Shared::new(&mut out.u[..rows * width]), width.div_ceil(COLUMNS));
        let (n, gate) = (&*n, &*gate);
        spread(&mut self.pool, 4 * rows * wide, rows * tasks, &|task| {
            let (t, columns) = (task / tasks, part(width, COLUMNS, task % tasks));
            // SAFETY: a task writes its columns of its row alone.
            let u = unsafe { shared.slice(t * width + columns.start..t * width + columns.end) };
            let stream = |s: usize| {
                let at = t * wide + s * width;
                let own = at + columns.start..at + columns.end;
                [&gate[own.clone()], &n[own]]
            };
            simd.map(Gated {}, stream(0), u);
            (1..streams).for_each(|s| simd.map(AddGated {}, stream(s), u));
            simd.map(ScaleOld { scale: by_streams }, [], u);
        });

        if let Some(inject) = w.inject {
            self.multiply(inject, n, rows, out.weights);
            let to_weight = Sigmoid { factor: 2.0, scale: by_streams };
            simd.map(to_weight, [], &mut out.weights[..rows * streams]);
        }
        (self.work.a, self.work.b, self.work.c) = (a, b, c);
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
        spread(&mut self.pool, rows * streams * width, rows, &|t| {
            for s in 0..streams {
                let at = (t * streams + s) * width;
                // SAFETY: task `t` writes row `t` alone.
                let x = unsafe { shared.slice(at..at + width) };
                let factor = weights[t * streams + s];
                simd.map(AddScaled { factor }, [&y[t * width..][..width]], x);
            }
        });
    }
}
