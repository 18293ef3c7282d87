//! Matrix times rows (family `gemv`).

use super::{activations_name, copies};
use crate::blocks::{DISTINCT_ROWS, Rows, weight};
use crate::bound::{Bound, Products};
use crate::case::{Call, Op};
use crate::compare::{Expected, Fault, Place};
use crate::memory::{Output, poisoned, upload};
use crate::{Cost, Input};
use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Activations, Backend, Error, Weight};

/// `y[T, n_out] = W x[T, n_in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matmul {
    /// Format of the weights.
    pub ty: TensorType,
    /// Values per weight row.
    pub n_in: usize,
    /// Weight rows.
    pub n_out: usize,
    /// Rows of activations (T).
    pub rows: usize,
    /// What the matrix is loaded for.
    pub activations: Activations,
}

impl Matmul {
    fn weight(&self, n_out: usize, rows: Rows) -> Result<Weight, Error> {
        weight(self.ty, WeightShape { n_in: self.n_in, n_out, experts: 1 }, rows)
    }

    fn bytes(&self) -> usize {
        self.n_in / self.ty.block_elements() * self.ty.block_bytes() * self.n_out
    }
}

impl Op for Matmul {
    fn name(&self) -> String {
        let Self { ty, n_in, n_out, rows, activations } = self;
        let (ty, activations) = (ty.name(), activations_name(*activations));
        format!("gemv/{ty}/{n_in}x{n_out}/T{rows}/{activations}")
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let ops = 2 * self.n_in as u64 * self.n_out as u64 * self.rows as u64;
        Cost { bytes: self.bytes() as u64, ops }
    }

    fn bound(&self) -> Bound {
        match self.activations {
            Activations::F32 => Bound::Product,
            Activations::Int8 => Bound::Product8,
        }
    }

    fn inputs(&self) -> &'static [Input] {
        Input::ALL
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let matrix =
            backend.load_matrix(&self.weight(self.n_out, Rows::Edge)?, self.activations)?;
        let x = upload(backend, &input.rows(self.rows, self.n_in))?;
        let len = self.rows * self.n_out;
        let mut y = poisoned(backend, len)?;
        backend.matmul(&matrix, &x, self.rows, &mut y);
        Ok(vec![Output::fetch(backend, &y, ("y", self.n_out, len))?])
    }

    /// The reference multiplies only the rows that differ.
    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let distinct = self.weight(self.n_out.min(DISTINCT_ROWS), Rows::Edge)?;
        let x = input.rows(self.rows, self.n_in);
        let products = Products::new(&distinct, &x, input.precision(self.activations));
        let both = (0..self.rows).flat_map(|t| (0..self.n_out).map(move |row| (t, row)));
        let (values, bounds) = both.map(|(t, row)| products.at(t, row)).unzip();
        Ok(vec![Expected { output: Output::new("y", self.n_out, values), bounds }])
    }

    /// The bits of the last row are those of the row alone.
    fn check_more<B: Backend>(&self, backend: &mut B) -> Result<(), Fault> {
        let (input, n_out) = (Input::Uniform, self.n_out);
        let matrix = backend.load_matrix(&self.weight(n_out, Rows::Usual)?, self.activations)?;
        let x = input.rows(self.rows, self.n_in);
        let mut products = |x: &[f32], rows: usize| {
            let x = upload(backend, x)?;
            let mut y = poisoned(backend, rows * n_out)?;
            backend.matmul(&matrix, &x, rows, &mut y);
            Output::fetch(backend, &y, ("y", n_out, rows * n_out))
        };
        let all = products(&x, self.rows)?.values;
        let row = self.rows - 1;
        let alone = products(&x[row * self.n_in..], 1)?.values;
        for (column, (&found, &expected)) in all[row * n_out..].iter().zip(&alone).enumerate() {
            if found.to_bits() != expected.to_bits() {
                let place = Place { input, output: "y", row, column, found, expected, bound: 0.0 };
                return Err(Fault::Company { place });
            }
        }
        Ok(())
    }

    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let matrices = (0..copies(self.bytes(), cold))
            .map(|_| backend.load_matrix(&self.weight(self.n_out, Rows::Usual)?, self.activations))
            .collect::<Result<Vec<_>, _>>()?;
        let x = upload(backend, &Input::Uniform.rows(self.rows, self.n_in))?;
        let mut y = backend.alloc(self.rows * self.n_out)?;
        let rows = self.rows;
        Ok(Box::new(move |backend, i| {
            backend.matmul(&matrices[i % matrices.len()], &x, rows, &mut y);
            Ok(())
        }))
    }
}
