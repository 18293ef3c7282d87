//! The reference: every family in plain code, f32 values, sums in f64.
//!
//! Slow on purpose. It is what other implementations are compared with, so it shares no arithmetic
//! with them beyond the definitions in [`crate::scalar`], [`crate::rope`] and [`crate::host`].

mod gdn;
mod gemv;
mod hc;
mod head;
mod moe;
mod mtp;
mod ple;
mod qsa;

use crate::{Activations, Device, Error, Weight};

/// The reference device; needs no state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Device for Reference {
    type Matrix = Weight;

    crate::host_memory!();

    fn name(&self) -> &'static str {
        "reference"
    }

    fn load_matrix(&mut self, weight: &Weight, _: Activations) -> Result<Weight, Error> {
        // One row decoded as a probe: formats that carry no weights are refused here.
        let probe = quant::decode_row(
            weight.ty(),
            &weight.bytes()[..weight.row_bytes()],
            &mut vec![0.0; weight.n_in()],
        );
        match probe {
            Ok(()) if !weight.ty().is_activation_only() => Ok(weight.clone()),
            _ => Err(unsupported(weight)),
        }
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<Vec<f32>, Error> {
        self.load_matrix(weight, Activations::F32).map(|w| w.decode())
    }
}

fn unsupported(weight: &Weight) -> Error {
    let (name, ty) = (weight.name().to_owned(), weight.ty());
    Error::UnsupportedFormat { name, ty, device: "reference" }
}

/// Dot product, summed in f64.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// `x / sqrt(mean(x^2) + eps) * weight`.
fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let mean = dot(x, x) / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(eps)).sqrt();
    for ((o, &x), &w) in out.iter_mut().zip(x).zip(weight) {
        *o = (f64::from(x) * scale) as f32 * w;
    }
}

/// Drops the oldest column of a convolution history and appends `newest`; a convolution of one tap
/// has no history.
fn advance(history: &mut [f32], newest: &[f32]) {
    if let Some(last) = history.len().checked_sub(newest.len()) {
        history.rotate_left(newest.len());
        history[last..].copy_from_slice(newest);
    }
}
