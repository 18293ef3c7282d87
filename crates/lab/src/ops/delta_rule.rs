//! Steps of a Gated DeltaNet layer (family `gdn`).

use super::{DEFERRED, copies, window, windows};
use crate::case::{Call, Op};
use crate::memory::{Output, poisoned, upload, vector};
use crate::{Cost, Input, Random};
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::{Backend, Error, GdnShape, Window};

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaStep {
    /// Causal convolution.
    Conv,
    /// Delta rule.
    Scan,
    /// Gated norm.
    OutputGate,
}

/// One step of a Gated DeltaNet layer over consecutive tokens of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaRule {
    /// Which.
    pub step: DeltaStep,
    /// Sizes of the layer.
    pub shape: GdnShape,
    /// Rows of the window (T).
    pub rows: usize,
}

/// Slots of the states that are checked.
const SLOTS: usize = 2;

/// The small weights of the layer.
struct Vectors<V> {
    taps: V,
    a: V,
    dt: V,
    norm: V,
}

/// The activations of a window.
struct Rows<B> {
    /// `[rows, channels]`.
    m: B,
    /// `[rows, value_heads]`.
    alpha: B,
    /// `[rows, value_heads]`.
    beta: B,
    /// `[rows, value_dim]`.
    z: B,
}

impl DeltaRule {
    fn vectors<B: Backend>(&self, backend: &mut B) -> Result<Vectors<B::Vector>, Error> {
        let GdnShape { value_heads, head_dim, conv_kernel, .. } = self.shape;
        let mut random = Random::new(5);
        let a: Vec<f32> = random.values(value_heads, 1.0).iter().map(|a| -a.abs()).collect();
        Ok(Vectors {
            taps: vector(backend, &random.values(self.shape.channels() * conv_kernel, 0.5))?,
            a: vector(backend, &a)?,
            dt: vector(backend, &random.values(value_heads, 1.0))?,
            norm: vector(backend, &random.values(head_dim, 1.0))?,
        })
    }

    fn inputs_of<B: Backend>(
        &self,
        backend: &mut B,
        (rows, scale): (usize, f32),
        random: &mut Random,
    ) -> Result<Rows<B::Buffer>, Error> {
        let heads = self.shape.value_heads;
        Ok(Rows {
            m: upload(backend, &random.values(rows * self.shape.channels(), scale))?,
            alpha: upload(backend, &random.values(rows * heads, 2.0))?,
            beta: upload(backend, &random.values(rows * heads, 2.0))?,
            z: upload(backend, &random.values(rows * self.shape.value_dim(), 2.0))?,
        })
    }

    /// The step on one window; the output gate works in place on `out`.
    fn call<B: Backend>(
        &self,
        backend: &mut B,
        (vectors, rows): (&Vectors<B::Vector>, &Rows<B::Buffer>),
        window: &Window,
        (state, out): (&mut B::GdnState, &mut B::Buffer),
    ) {
        let Vectors { taps, a, dt, norm } = vectors;
        let Rows { m, alpha, beta, z } = rows;
        match self.step {
            DeltaStep::Conv => backend.gdn_conv(&self.shape, taps, window, state, (m, out)),
            DeltaStep::Scan => {
                let input = GdnInput { qkv: m, alpha, beta, a, dt };
                backend.gdn_scan(&self.shape, window, input, state, out);
            }
            DeltaStep::OutputGate => {
                backend.gdn_output_gate(&self.shape, norm, z, window.rows(), out);
            }
        }
    }

    fn width(&self) -> usize {
        if self.step == DeltaStep::Conv { self.shape.channels() } else { self.shape.value_dim() }
    }

    /// Bytes of a slot's state that the step reads and writes.
    fn state_bytes(&self) -> usize {
        match self.step {
            DeltaStep::Conv => 8 * self.shape.conv_len(),
            DeltaStep::Scan => 8 * self.shape.state_len(),
            DeltaStep::OutputGate => 8 * self.rows * self.shape.value_dim(),
        }
    }
}

impl Op for DeltaRule {
    fn name(&self) -> String {
        let GdnShape { key_heads, value_heads, head_dim, conv_kernel, .. } = self.shape;
        let heads = format!("{key_heads}k{value_heads}v{head_dim}");
        match self.step {
            DeltaStep::Conv => format!("gdn_conv/{heads}c{conv_kernel}/T{}", self.rows),
            DeltaStep::Scan => format!("gdn_scan/{heads}/T{}", self.rows),
            DeltaStep::OutputGate => format!("gdn_gate/{heads}/T{}", self.rows),
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let (rows, shape) = (self.rows as u64, &self.shape);
        let ops = match self.step {
            DeltaStep::Conv => 2 * shape.conv_kernel * shape.channels(),
            // Decay, read, update and result: one multiplication and three of two operations.
            DeltaStep::Scan => 7 * shape.state_len(),
            DeltaStep::OutputGate => 5 * shape.value_dim(),
        };
        Cost { bytes: self.state_bytes() as u64, ops: rows * ops as u64 }
    }

    fn inputs(&self) -> &'static [Input] {
        Input::SCALED
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let vectors = self.vectors(backend)?;
        let mut random = Random::new(6);
        let mut state = backend.new_gdn_state(&self.shape, SLOTS, DEFERRED)?;
        let mut results = Vec::new();
        for window in windows(self.rows) {
            let rows = self.inputs_of(backend, (window.rows(), input.scale()), &mut random)?;
            let len = window.rows() * self.width();
            let mut out = poisoned(backend, len)?;
            if self.step == DeltaStep::OutputGate {
                backend.upload(&random.values(len, input.scale()), &mut out);
            }
            self.call(backend, (&vectors, &rows), &window, (&mut state, &mut out));
            results.push(Output::fetch(backend, &out, ("o", self.width(), len))?);
        }
        for slot in 0..SLOTS {
            let GdnSlot { s, conv } = backend.export_gdn(&state, slot);
            results.push(Output::new("state", self.shape.head_dim, s));
            results.push(Output::new("history", self.shape.channels(), conv));
        }
        Ok(results)
    }

    /// The states of several slots take turns.
    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let vectors = self.vectors(backend)?;
        let mut random = Random::new(6);
        let rows = self.inputs_of(backend, (self.rows, 1.0), &mut random)?;
        let slot_bytes = 4 * (self.shape.state_len() + self.shape.conv_len());
        let slots = copies(slot_bytes, cold);
        let mut state = backend.new_gdn_state(&self.shape, slots, 0)?;
        let mut out = upload(backend, &random.values(self.rows * self.width(), 1.0))?;
        Ok(Box::new(move |backend, i| {
            let window = window(&[(i % slots, i / slots * self.rows, self.rows)]);
            self.call(backend, (&vectors, &rows), &window, (&mut state, &mut out));
            Ok(())
        }))
    }
}
