//! Input of the drafting block.

use super::spread::spread;
use crate::device::Cpu;
use crate::share::Shared;
use crate::simd::elementwise::Normalise;
use kernels::mtp::{MtpNorms, NormExtent};
use kernels::{HcShape, Mtp};

impl Mtp for Cpu {
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, Vec<f32>>,
        (e, x): (&Vec<f32>, &Vec<f32>),
        rows: usize,
        out: &mut Vec<f32>,
    ) {
        let (HcShape { streams, width, eps }, simd) = (*shape, self.simd);
        let wide = streams * width;
        let shared = Shared::new(&mut out[..rows * streams * 2 * width]);
        spread(&mut self.pool, 8 * rows * wide, rows * streams, &|task| {
            let (t, s) = (task / streams, task % streams);
            // SAFETY: a stream of a row belongs to one task.
            let out = unsafe { shared.slice(task * 2 * width..(task + 1) * 2 * width) };
            let (left, right) = out.split_at_mut(width);
            simd.rms_norm(&e[t * width..][..width], norms.embedding, eps, left);
            let (all, own) = (&x[t * wide..][..wide], s * width..(s + 1) * width);
            let scale = match norms.extent {
                NormExtent::Whole => simd.rms_scale(all, eps),
                NormExtent::PerStream => simd.rms_scale(&all[own.clone()], eps),
            };
            simd.map(Normalise { scale }, [&all[own.clone()], &norms.streams[own]], right);
        });
    }
}
