//! Products with f32 activations: a few weight rows are decoded into the cache, then multiplied
//! with every row of the window, in tiles of [`MAX_TILE`].

use crate::device::{Encoded, Order};
use crate::simd::{Kernels, MAX_TILE, Rows, StoredType, Sums};
use std::cell::RefCell;

/// Weight rows that are decoded together, at most, where several tiles pass over them.
const DECODED_ROWS: usize = 16;

/// Decoded values that stay in the cache beside the activations while several tiles pass over them.
const DECODED_VALUES: usize = 64 * 1024;

thread_local! {
    /// Decoded weight rows of the running task.
    static DECODED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Rows of activations: row `tokens[t]` of `values` for every t.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRows<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) width: usize,
    pub(crate) tokens: &'a [u32],
}

impl<'a> TokenRows<'a> {
    /// Rows `first ..`, up to [`MAX_TILE`] of them; their number.
    fn tile(&self, first: usize) -> (Rows<'a>, usize) {
        let tokens = &self.tokens[first..];
        let count = tokens.len().min(MAX_TILE);
        let row = |t: usize| {
            let token = tokens[if t < count { t } else { 0 }] as usize;
            &self.values[token * self.width..][..self.width]
        };
        (std::array::from_fn(row), count)
    }
}

/// Rows `first..last` of `weights` times the activation rows `x`, each product handed
/// to `emit(t, row, value)`.
///
/// Rows are decoded in groups, each once, whatever the number of activation rows. Floats are read
/// as they are, but for many rows of activations they are brought to f32 once too.
pub(crate) fn rows_times(
    simd: &Kernels,
    weights: Encoded<'_>,
    (first, last): (usize, usize),
    x: TokenRows<'_>,
    mut emit: impl FnMut(usize, usize, f32),
) {
    let Encoded { bytes, n_in, row_bytes, ty, decoder, order } = weights;
    assert_eq!(order, Order::Rows);
    // As many rows as stay in the cache while several tiles of activations pass over them.
    let most = if x.tokens.len() <= MAX_TILE { simd.tile_rows() } else { DECODED_ROWS };
    let fit = (DECODED_VALUES / n_in).clamp(1, most);
    let group = if fit < simd.tile_rows() { fit } else { fit - fit % simd.tile_rows() };
    let stored = match StoredType::of(ty) {
        Some(StoredType::F32) => Some(StoredType::F32),
        other => other.filter(|_| x.tokens.len() <= MAX_TILE),
    };
    DECODED.with_borrow_mut(|decoded| {
        for start in (first..last).step_by(group) {
            let rows = group.min(last - start);
            let encoded = &bytes[start * row_bytes..(start + rows) * row_bytes];
            let weights = match stored {
                Some(ty) => (encoded, ty),
                None => {
                    let decoded = crate::device::room(decoded, rows * n_in);
                    simd.decode(decoder, encoded, decoded);
                    (bytemuck::cast_slice(decoded), StoredType::F32)
                }
            };
            multiply(simd, weights, rows, x, |t, row, value| emit(t, start + row, value));
        }
    });
}

/// `rows` weight rows, one after the other in `weights`, times the activation rows `x`.
fn multiply(
    simd: &Kernels,
    (weights, ty): (&[u8], StoredType),
    rows: usize,
    x: TokenRows<'_>,
    mut emit: impl FnMut(usize, usize, f32),
) {
    let (tile_rows, bytes) = (simd.tile_rows(), weights.len() / rows);
    for first in (0..x.tokens.len()).step_by(MAX_TILE) {
        let (of_tile, tokens) = x.tile(first);
        let mut row = 0;
        while row < rows {
            let count = if row + tile_rows <= rows { tile_rows } else { 1 };
            let mut sums = Sums::default();
            let weights = &weights[row * bytes..(row + count) * bytes];
            simd.tile((weights, ty), count == 1, &of_tile, tokens, &mut sums);
            for (r, sums) in sums[..count].iter().enumerate() {
                for (i, &sum) in sums[..tokens].iter().enumerate() {
                    emit(first + i, row + r, sum);
                }
            }
            row += count;
        }
    }
}

/// Weight rows in tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowTasks {
    /// All of them.
    pub(crate) rows: usize,
    /// Those of a task.
    pub(crate) each: usize,
}

impl RowTasks {
    /// First and last row of task `i`.
    pub(crate) fn range(&self, i: usize) -> (usize, usize) {
        (i * self.each, self.rows.min((i + 1) * self.each))
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(self.each)
    }
}
