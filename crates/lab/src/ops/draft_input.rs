//! What enters the drafting block (family `mtp`).

use super::copies;
use crate::case::{Call, Op};
use crate::memory::{Output, poisoned, upload, vector};
use crate::{Cost, Input, Random};
use kernels::mtp::{MtpNorms, NormExtent};
use kernels::{Backend, Error, HcShape};

/// Embedding and streams, normalised side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftInput {
    /// Sizes of the streams.
    pub shape: HcShape,
    /// Over what the streams are normalised.
    pub extent: NormExtent,
    /// Rows of the window (T).
    pub rows: usize,
}

/// What goes in: norms of embedding and streams, embeddings, streams.
struct Operands<B: Backend> {
    norms: [B::Vector; 2],
    e: B::Buffer,
    x: B::Buffer,
}

impl DraftInput {
    fn wide(&self) -> usize {
        self.shape.streams * self.shape.width
    }

    fn operands<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Operands<B>, Error> {
        let mut random = Random::new(17);
        let mut norm = |len: usize| vector(backend, &random.values(len, 1.0));
        let norms = [norm(self.shape.width)?, norm(self.wide())?];
        let e = upload(backend, &input.rows(self.rows, self.shape.width))?;
        let x = upload(backend, &input.rows(self.rows, self.wide()))?;
        Ok(Operands { norms, e, x })
    }

    fn call<B: Backend>(&self, backend: &mut B, operands: &Operands<B>, out: &mut B::Buffer) {
        let Operands { norms: [embedding, streams], e, x } = operands;
        let norms = MtpNorms::<B::Vector> { embedding, streams, extent: self.extent };
        backend.mtp_input(&self.shape, &norms, (e, x), self.rows, out);
    }
}

impl Op for DraftInput {
    fn name(&self) -> String {
        let HcShape { streams, width, .. } = self.shape;
        let extent = match self.extent {
            NormExtent::Whole => "whole",
            NormExtent::PerStream => "per-stream",
        };
        format!("mtp_input/{streams}x{width}/{extent}/T{}", self.rows)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let (wide, width) = (self.wide(), self.shape.width);
        // Streams and embeddings are read, both halves written; norms take three operations.
        let values = self.rows * (3 * wide + width);
        Cost { bytes: 4 * (values + wide + width) as u64, ops: (6 * self.rows * wide) as u64 }
    }

    fn inputs(&self) -> &'static [Input] {
        Input::SCALED
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let operands = self.operands(backend, input)?;
        let len = self.rows * 2 * self.wide();
        let mut out = poisoned(backend, len)?;
        self.call(backend, &operands, &mut out);
        Ok(vec![Output::fetch(backend, &out, ("both", 2 * self.shape.width, len))?])
    }

    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let mut out = poisoned(backend, self.rows * 2 * self.wide())?;
        let operands = (0..copies(self.cost().bytes as usize, cold))
            .map(|_| self.operands(backend, Input::Uniform))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(move |backend, i| {
            self.call(backend, &operands[i % operands.len()], &mut out);
            Ok(())
        }))
    }
}
