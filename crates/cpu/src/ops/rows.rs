//! Products with f32 activations: a few weight rows are decoded into the cache, then multiplied with
//! every row of the window, in tiles of [`MAX_TILE`].

use crate::device::CpuMatrix;
use crate::simd::{Kernels, MAX_TILE, Rows, StoredType, Sums};
use std::cell::RefCell;

/// Weight rows per task: enough work to outweigh taking it.
const TASK_ROWS: usize = 16;

/// Decoded values that stay in the cache beside the activations while several tiles pass over them.
const DECODED_VALUES: usize = 64 * 1024;

thread_local! {
    /// Decoded weight rows of the running task.
    static DECODED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Weight rows `first..last` (over all experts) times the activation rows `x`; `emit(t, row, value)`.
///
/// Rows are decoded in groups, each once, whatever the number of activation rows. Floats are read
/// as they are, but for many rows of activations they are brought to f32 once too.
pub(crate) fn rows_times(
    simd: &Kernels,
    w: &CpuMatrix,
    (first, last): (usize, usize),
    x: &[&[f32]],
    mut emit: impl FnMut(usize, usize, f32),
) {
    let (n_in, bytes) = (w.weight.n_in(), w.weight.row_bytes());
    // As many rows as stay in the cache while several tiles of activations pass over them.
    let most = if x.len() <= MAX_TILE { simd.tile_rows() } else { TASK_ROWS };
    let fit = (DECODED_VALUES / n_in).clamp(1, most);
    let group = if fit < simd.tile_rows() { fit } else { fit - fit % simd.tile_rows() };
    let stored = match StoredType::of(w.weight.ty()) {
        Some(StoredType::F32) => Some(StoredType::F32),
        other => other.filter(|_| x.len() <= MAX_TILE),
    };
    DECODED.with_borrow_mut(|decoded| {
        for start in (first..last).step_by(group) {
            let rows = group.min(last - start);
            let encoded = &w.weight.bytes()[start * bytes..(start + rows) * bytes];
            let weights = match stored {
                Some(ty) => (encoded, ty),
                None => {
                    let decoded = crate::device::room(decoded, rows * n_in);
                    simd.decode(w.decoder, encoded, decoded);
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
    x: &[&[f32]],
    mut emit: impl FnMut(usize, usize, f32),
) {
    let (tile_rows, bytes) = (simd.tile_rows(), weights.len() / rows);
    for (tile, x) in x.chunks(MAX_TILE).enumerate() {
        let mut of_tile: Rows<'_> = [x[0]; MAX_TILE];
        of_tile[..x.len()].copy_from_slice(x);
        let mut row = 0;
        while row < rows {
            let count = if row + tile_rows <= rows { tile_rows } else { 1 };
            let mut sums = Sums::default();
            let weights = &weights[row * bytes..(row + count) * bytes];
            simd.tile((weights, ty), count == 1, &of_tile, x.len(), &mut sums);
            for (r, sums) in sums[..count].iter().enumerate() {
                for (i, &sum) in sums[..x.len()].iter().enumerate() {
                    emit(tile * MAX_TILE + i, row + r, sum);
                }
            }
            row += count;
        }
    }
}

/// Splits `rows` into tasks of [`TASK_ROWS`]; the range of task `i`.
pub(crate) fn task_rows(rows: usize, i: usize) -> (usize, usize) {
    (i * TASK_ROWS, rows.min((i + 1) * TASK_ROWS))
}

/// Number of tasks for `rows`.
pub(crate) fn task_count(rows: usize) -> usize {
    rows.div_ceil(TASK_ROWS)
}
