//! The reference: every family in plain code, f32 values, sums in f64.
//!
//! Slow on purpose. It is what other implementations are compared with, so it shares no arithmetic
//! with them beyond the definitions in [`crate::scalar`], [`crate::rope`] and [`crate::host`].

mod gdn;
mod gemv;
mod hc;
mod head;
mod moe;
mod ple;
mod qsa;

use crate::host::{GdnState, Plan, PleState, QsaState, Selection};
use crate::{Device, Error, GdnShape, PleShape, QsaShape, Weight};

/// The reference device; needs no state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Device for Reference {
    type Buffer = Vec<f32>;
    type Matrix = Weight;
    type Vector = Vec<f32>;
    type Plan = Plan;
    type Selection = Selection;
    type GdnState = GdnState;
    type QsaState = QsaState;
    type PleState = PleState;

    fn name(&self) -> &'static str {
        "reference"
    }

    fn alloc(&mut self, len: usize) -> Result<Vec<f32>, Error> {
        crate::host::zeroed(len, "activations")
    }

    fn upload(&mut self, values: &[f32], buffer: &mut Vec<f32>) {
        buffer[..values.len()].copy_from_slice(values);
    }

    fn download(&mut self, buffer: &Vec<f32>, out: &mut [f32]) -> Result<(), Error> {
        out.copy_from_slice(&buffer[..out.len()]);
        Ok(())
    }

    fn load_matrix(&mut self, weight: &Weight) -> Result<Weight, Error> {
        // One row decoded as a probe: formats that carry no weights are refused here.
        let probe = quant::decode_row(
            weight.ty(),
            &weight.bytes()[..weight.row_bytes()],
            &mut vec![0.0; weight.n_in()],
        );
        match probe {
            Ok(()) => Ok(weight.clone()),
            Err(_) => Err(unsupported(weight)),
        }
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<Vec<f32>, Error> {
        self.load_matrix(weight).map(|w| w.decode())
    }

    fn new_plan(&mut self) -> Plan {
        Plan::default()
    }

    fn new_selection(&mut self) -> Selection {
        Selection::default()
    }

    fn new_gdn_state(&mut self, shape: &GdnShape, slots: usize) -> Result<GdnState, Error> {
        GdnState::new(shape, slots)
    }

    fn new_qsa_state(
        &mut self,
        _shape: &QsaShape,
        slots: usize,
        context: usize,
    ) -> Result<QsaState, Error> {
        Ok(QsaState::new(slots, context))
    }

    fn new_ple_state(&mut self, shape: &PleShape, slots: usize) -> Result<PleState, Error> {
        PleState::new(shape, slots)
    }

    fn reset_gdn(&mut self, state: &mut GdnState, slot: usize) {
        state.reset(slot);
    }

    fn reserve_qsa(
        &mut self,
        shape: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        state.reserve(shape, slot, len)
    }

    fn reset_qsa(&mut self, state: &mut QsaState, slot: usize) {
        state.reset(slot);
    }

    fn reset_ple(&mut self, state: &mut PleState, slot: usize) {
        state.reset(slot);
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
