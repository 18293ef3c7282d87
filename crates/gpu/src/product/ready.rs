//! Activations in the form that a product reads, made once for all products of the same rows.

use super::Path;
use crate::buffer::{GpuBuffer, Held};
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::formats::UNIT;
use crate::matrix::Matrix;
use crate::scratch::Scratch;

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

/// Rows that are there in 8 bits, in the scratch buffers of their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantised {
    /// The buffer that they were made of, and its state then.
    x: (u64, u64),
    n_in: usize,
    rows: usize,
}

/// Buffers whose rows are kept in 8 bits at the same time.
pub(crate) const QUANTISED: usize = 4;

/// Rows that are there in 8 bits, and the place that is taken next.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuantisedRows {
    places: [Option<Quantised>; QUANTISED],
    next: usize,
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
        let units = rows * n_in.div_ceil(UNIT);
        let state = (x.id(), x.state());
        let fits = |q: &Option<Quantised>| {
            q.is_some_and(|q| q.x == state && q.n_in == n_in && q.rows >= rows)
        };
        let there = self.quantised.places.iter().position(fits);
        let place = there.unwrap_or(self.quantised.next);
        let codes = self.scratch(Scratch::Codes(place), units * 8)?;
        let scales = self.scratch(Scratch::Scales(place), units * 2)?;
        if there.is_none() {
            self.quantised.next = (place + 1) % QUANTISED;
            self.quantised.places[place] = Some(Quantised { x: state, n_in, rows });
            let buffers = [codes.all(), scales.all(), x.all()];
            self.elementwise(Elementwise::Quantise, &buffers, None, (1, units, 0));
        }
        Some(Inputs::Int8 { codes: Held::new(&codes), scales: Held::new(&scales) })
    }
}
