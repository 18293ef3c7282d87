//! A weight as it lies in the file: what a device is given to load.

use crate::Error;
use gguf::{Bytes, TensorType};

/// A matrix (or a stack of one matrix per expert) in a block format.
///
/// `n_out * experts` rows of `n_in` values; row `e * n_out + r` is row `r` of expert `e`. A vector
/// is a matrix with `n_out == 1`.
#[derive(Clone, Debug)]
pub struct Weight {
    name: String,
    ty: TensorType,
    n_in: usize,
    n_out: usize,
    experts: usize,
    bytes: Bytes,
}

/// Rows, columns and experts of a [`Weight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightShape {
    /// Values per row.
    pub n_in: usize,
    /// Rows per expert.
    pub n_out: usize,
    /// Number of experts; 1 for a plain matrix.
    pub experts: usize,
}

impl Weight {
    /// Checks that `bytes` holds exactly the stated shape.
    ///
    /// # Errors
    /// [`Error::WeightSize`] when it does not, also when the sizes overflow.
    pub fn new(
        name: impl Into<String>,
        ty: TensorType,
        shape: WeightShape,
        bytes: Bytes,
    ) -> Result<Self, Error> {
        let WeightShape { n_in, n_out, experts } = shape;
        let name = name.into();
        let want = ty
            .row_bytes(n_in as u64)
            .and_then(|row| row.checked_mul(n_out as u64))
            .and_then(|matrix| matrix.checked_mul(experts as u64))
            .and_then(|all| usize::try_from(all).ok());
        if want != Some(bytes.len()) || n_in == 0 {
            let (want, found) = (want.unwrap_or(0), bytes.len());
            return Err(Error::WeightSize { name, ty, n_in, n_out, experts, want, found });
        }
        Ok(Self { name, ty, n_in, n_out, experts, bytes })
    }

    /// Tensor name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Block format.
    pub fn ty(&self) -> TensorType {
        self.ty
    }

    /// Values per row.
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// Rows per expert.
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Number of experts; 1 for a plain matrix.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Rows over all experts.
    pub fn rows(&self) -> usize {
        self.n_out * self.experts
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.n_in / self.ty.block_elements() * self.ty.block_bytes()
    }

    /// The encoded blocks of row `row` (over all experts).
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.row_bytes();
        &self.bytes[row * bytes..(row + 1) * bytes]
    }

    /// The encoded blocks of every row, one row after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes row `row` into `out`, which holds `n_in` values.
    ///
    /// # Panics
    /// If the format carries no weights; devices refuse such a weight when it is loaded.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        quant::decode_row(self.ty, self.row(row), out)
            .expect("sizes are checked when a weight is made, its format when it is loaded");
    }

    /// Decodes the whole weight, rows one after the other.
    pub fn decode(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.n_in * self.rows()];
        for (row, values) in out.chunks_exact_mut(self.n_in).enumerate() {
            self.decode_row(row, values);
        }
        out
    }
}
