//! Family `gemv` (and `gemm`): matrix times one or more rows of activations.

use crate::Device;

/// `y = W x` for every row of a window.
///
/// A weight unit is decoded once and used for all rows. The sum over the inner dimension runs in
/// one order, the same for one row and for a thousand, so a row's bits do not depend on `rows`.
pub trait Gemv: Device {
    /// `y[t] = w x[t]`: `x` is `[rows, n_in]`, `y` is `[rows, n_out]`, `w` has one expert.
    fn matmul(&mut self, w: &Self::Matrix, x: &Self::Buffer, rows: usize, y: &mut Self::Buffer);
}
