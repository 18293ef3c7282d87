//! Activations in the form that a product reads, made once for all products of the same rows.

use super::Path;
use crate::buffer::{GpuBuffer, Held};
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::formats::UNIT;
use crate::matrix::Matrix;
use crate::scratch::Scratch;
use kernels::Activations;
use std::sync::Arc;

/// Activations as a product reads them.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) inputs: Inputs,
}

/// What is bound.
#[derive(Clone, Debug)]
pub(crate) enum Inputs {
    Float(Held),
    Int8 { codes: Held, scales: Held },
}

impl Ready {
    pub(crate) fn path(&self) -> Path {
        match self.inputs {
            Inputs::Float(_) => Path::Float,
            Inputs::Int8 { .. } => Path::Int8,
        }
    }
}

/// Values that are there in 8 bits, in the scratch buffers of their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantised {
    /// The buffer that they were made of, and its state then.
    x: (u64, u64),
    values: usize,
}

/// Buffers whose rows are kept in 8 bits at the same time.
pub(crate) const QUANTISED: usize = 4;

/// Rows that are there in 8 bits, and the place that is taken next.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuantisedRows {
    places: [Option<Quantised>; QUANTISED],
    next: usize,
    /// The window that took the last one.
    window: u64,
}

impl QuantisedRows {
    /// The place that is taken next, with nothing in it. Every window begins with the same one, so
    /// that its calls bind what those of the window before did.
    fn free(&mut self, window: u64) -> usize {
        if self.window != window {
            (self.window, self.next) = (window, 0);
        }
        self.places[self.next] = None;
        self.next
    }
}

impl Gpu {
    /// Brings `rows` rows of activations to the form that a product with `matrix` reads; `None` if
    /// memory is short, which is kept as a fault.
    pub(crate) fn ready(&mut self, matrix: &Matrix, x: &GpuBuffer, rows: usize) -> Option<Ready> {
        assert!(matrix.table.is_none(), "{} is a table", matrix.name);
        let n_in = matrix.n_in;
        assert!(x.len() >= rows * n_in, "{rows} rows of {n_in} in {} values", x.len());
        let units = matrix.units();
        let inputs = match self.path(matrix) {
            Path::Int8 => self.quantised(x, (rows, n_in))?,
            Path::Float if n_in.is_multiple_of(UNIT) => Inputs::Float(Held::new(x)),
            Path::Float => {
                let padded = self.scratch(Scratch::Padded, rows * units * UNIT)?;
                let shape = (rows, units * UNIT, n_in);
                self.elementwise(Elementwise::Pad, &[padded.all(), x.all()], None, shape);
                Inputs::Float(Held::new(&padded))
            }
        };
        Some(Ready { inputs })
    }

    /// The rows in 8 bits: those that are there, if they are still those of `x`.
    fn quantised(&mut self, x: &GpuBuffer, (rows, n_in): (usize, usize)) -> Option<Inputs> {
        let values = rows * n_in;
        let state = (x.id(), x.state());
        let fits = |q: &Option<Quantised>| q.is_some_and(|q| q.x == state && q.values >= values);
        let window = self.recorder.window();
        let there = self.quantised.places.iter().position(fits);
        let place = there.unwrap_or_else(|| self.quantised.free(window));
        let [codes, scales] = self.codes_at(place, values)?;
        if there.is_none() {
            let buffers = [codes.all(), scales.all(), x.all()];
            self.elementwise(Elementwise::Quantise, &buffers, None, (1, values / 4, 0));
            self.note_codes(x, values);
        }
        Some(Inputs::Int8 { codes: Held::new(&codes), scales: Held::new(&scales) })
    }

    /// Where a kernel that makes `x` may leave its first values in 8 bits, too; `None` where
    /// products read f32, or rows of `width` values are no whole units. What is left is noted with
    /// [`Gpu::note_codes`].
    pub(crate) fn codes_for(
        &mut self,
        x: &GpuBuffer,
        values: usize,
        width: usize,
    ) -> Option<[Arc<GpuBuffer>; 2]> {
        let int8 = self.activations == Activations::Int8;
        if !int8 || !width.is_multiple_of(UNIT) || values == 0 || x.len() < values {
            return None;
        }
        let place = self.quantised.free(self.recorder.window());
        self.codes_at(place, values)
    }

    /// Notes that the place of [`Gpu::codes_for`] has the first values of `x`.
    pub(crate) fn note_codes(&mut self, x: &GpuBuffer, values: usize) {
        let place = self.quantised.next;
        self.quantised.next = (place + 1) % QUANTISED;
        self.quantised.places[place] = Some(Quantised { x: (x.id(), x.state()), values });
    }

    fn codes_at(&mut self, place: usize, values: usize) -> Option<[Arc<GpuBuffer>; 2]> {
        let units = values.div_ceil(UNIT);
        let codes = self.scratch(Scratch::Codes(place), units * 8)?;
        Some([codes, self.scratch(Scratch::Scales(place), units * 2)?])
    }
}
