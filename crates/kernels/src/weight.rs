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

    /// A matrix of these rows (over all experts), in this order and encoded as they are. It has a
    /// copy of their bytes; one expert; the name of this weight.
    ///
    /// # Errors
    /// [`Error::RowOutOfRange`] for a row that is not there.
    pub fn select_rows(&self, rows: &[u32]) -> Result<Weight, Error> {
        let count = self.rows();
        if let Some(&row) = rows.iter().find(|&&row| row as usize >= count) {
            return Err(Error::RowOutOfRange { name: self.name.clone(), row, rows: count });
        }
        let mut bytes = Vec::with_capacity(rows.len() * self.row_bytes());
        for &row in rows {
            bytes.extend_from_slice(self.row(row as usize));
        }
        let shape = WeightShape { n_in: self.n_in, n_out: rows.len(), experts: 1 };
        Weight::new(self.name.clone(), self.ty, shape, bytes.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two experts of three rows of one or two blocks. Every byte tells its place, but small ones
    /// only, so that no scale is infinite or NaN.
    fn weight(ty: TensorType, blocks: usize) -> Weight {
        let shape = WeightShape { n_in: ty.block_elements() * blocks, n_out: 3, experts: 2 };
        let bytes: Vec<u8> =
            (0..ty.block_bytes() * blocks * 6).map(|i| (i * 7 % 61) as u8).collect();
        Weight::new("output.weight", ty, shape, bytes.into()).unwrap()
    }

    #[test]
    fn selected_rows_are_the_rows_in_every_format() {
        for ty in [TensorType::F32, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_K] {
            for blocks in [1, 2] {
                let all = weight(ty, blocks);
                let rows = [4, 0, 5, 0];
                let some = all.select_rows(&rows).unwrap();
                assert_eq!((some.n_in(), some.n_out(), some.experts()), (all.n_in(), 4, 1));
                assert_eq!((some.name(), some.ty()), (all.name(), ty));
                let (mut left, mut right) = (vec![0.0; all.n_in()], vec![0.0; all.n_in()]);
                for (place, &row) in rows.iter().enumerate() {
                    assert_eq!(some.row(place), all.row(row as usize), "{ty}");
                    some.decode_row(place, &mut left);
                    all.decode_row(row as usize, &mut right);
                    assert_eq!(left, right, "{ty}");
                }
            }
        }
    }

    #[test]
    fn no_rows_are_an_empty_matrix() {
        let none = weight(TensorType::Q8_0, 1).select_rows(&[]).unwrap();
        assert_eq!((none.rows(), none.bytes().len()), (0, 0));
    }

    #[test]
    fn a_row_that_is_not_there_is_named() {
        let error = weight(TensorType::Q8_0, 1).select_rows(&[5, 6, 7]).unwrap_err();
        assert!(matches!(error, Error::RowOutOfRange { row: 6, rows: 6, .. }), "{error}");
        assert!(error.to_string().starts_with("tensor output.weight: row 6 "), "{error}");
        assert!(weight(TensorType::F32, 1).select_rows(&[u32::MAX]).is_err());
    }
}
