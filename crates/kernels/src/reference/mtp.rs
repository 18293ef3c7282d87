//! Input of the drafting block.

use super::{Reference, dot, rms_norm};
use crate::HcShape;
use crate::mtp::{Mtp, MtpNorms, NormExtent};

impl Mtp for Reference {
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, Vec<f32>>,
        (e, x): (&Vec<f32>, &Vec<f32>),
        rows: usize,
        out: &mut Vec<f32>,
    ) {
        let HcShape { streams, width, eps } = *shape;
        for t in 0..rows {
            let all = &x[t * streams * width..][..streams * width];
            for s in 0..streams {
                let out = &mut out[(t * streams + s) * 2 * width..][..2 * width];
                let (left, right) = out.split_at_mut(width);
                rms_norm(&e[t * width..][..width], norms.embedding, eps, left);
                let own = s * width..(s + 1) * width;
                let measured = match norms.extent {
                    NormExtent::Whole => all,
                    NormExtent::PerStream => &all[own.clone()],
                };
                let mean = dot(measured, measured) / measured.len() as f64;
                let scale = 1.0 / (mean + f64::from(eps)).sqrt();
                let values = all[own.clone()].iter().zip(&norms.streams[own]);
                for (out, (&x, &w)) in right.iter_mut().zip(values) {
                    *out = (f64::from(x) * scale) as f32 * w;
                }
            }
        }
    }
}
