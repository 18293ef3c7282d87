//! Family `head`: token embedding at the start, rows to keep and their best token at the end.

use crate::{Device, Error};

/// The largest logits of a row: every other logit of it is less than each of these, and none is NaN
/// or +inf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Best {
    /// Their tokens, rising.
    pub tokens: Vec<u32>,
    /// The logits, of these tokens.
    pub logits: Vec<f32>,
}

/// First and last steps of a window.
pub trait Head: Device {
    /// `x[t, s] = row tokens[t] of table` for every stream s: `x` is `[rows, streams, H]`, the
    /// table is `{H, vocab}`.
    fn embed(&mut self, table: &Self::Matrix, tokens: &[u32], streams: usize, x: &mut Self::Buffer);

    /// `out[first + i] = x[rows[i]]`, rows of `width` values: keeps rows that are wanted later.
    fn gather_rows(
        &mut self,
        x: &Self::Buffer,
        rows: &[usize],
        width: usize,
        out: (&mut Self::Buffer, usize),
    );

    /// Index of the largest of the `width` logits of each row; equal logits go to the lower index,
    /// and a row with a non-finite largest value (or a NaN anywhere) gives `None`.
    fn argmax(&mut self, logits: &Self::Buffer, rows: usize, width: usize) -> Vec<Option<u32>>;

    /// The largest of the `width` logits of each row, more than a hundred, for a device from which
    /// all would take long; `None` for a row that it has no such list of.
    ///
    /// # Errors
    /// As for [`Device::download`].
    fn best(
        &mut self,
        _logits: &Self::Buffer,
        rows: usize,
        _width: usize,
    ) -> Result<Vec<Option<Best>>, Error> {
        Ok(vec![None; rows])
    }
}
