//! Products with f32 activations: a few weight rows are decoded into the cache, then multiplied with
//! every row of the window, in tiles of [`MAX_TILE`].

use crate::device::CpuMatrix;
use crate::simd::{Kernels, MAX_TILE, Rows, Sums};
use gguf::TensorType;
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
/// Rows are decoded in groups, each once, whatever the number of activation rows.
pub(crate) fn rows_times(
    simd: &Kernels,
    w: &CpuMatrix,
    (first, last): (usize, usize),
    x: &[&[f32]],
    mut emit: impl FnMut(usize, usize, f32),
) {
    let n_in = w.weight.n_in();
    // As many rows as stay in the cache while several tiles of activations pass over them.
    let most = if x.len() <= MAX_TILE { simd.tile_rows() } else { TASK_ROWS };
    let fit = (DECODED_VALUES / n_in).clamp(1, most);
    let group = if fit < simd.tile_rows() { fit } else { fit - fit % simd.tile_rows() };
    let mut multiply = |start: usize, decoded: &[f32]| {
        for (tile, rows) in x.chunks(MAX_TILE).enumerate() {
            let mut tile_rows: Rows<'_> = [rows[0]; MAX_TILE];
            tile_rows[..rows.len()].copy_from_slice(rows);
            let mut row = start;
            for weights in row_tiles(decoded, n_in, simd.tile_rows()) {
                let mut sums = Sums::default();
                simd.tile(weights, n_in, &tile_rows, rows.len(), &mut sums);
                for sums in &sums[..weights.len() / n_in] {
                    for (i, &sum) in sums[..rows.len()].iter().enumerate() {
                        emit(tile * MAX_TILE + i, row, sum);
                    }
                    row += 1;
                }
            }
        }
    };
    let bytes = w.weight.row_bytes();
    let groups = (first..last)
        .step_by(group)
        .map(|start| (start, &w.weight.bytes()[start * bytes..last.min(start + group) * bytes]));
    DECODED.with_borrow_mut(|decoded| {
        for (start, encoded) in groups {
            if let Some(values) = as_f32(w.weight.ty(), encoded) {
                multiply(start, values);
                continue;
            }
            let decoded = crate::device::room(decoded, encoded.len() / bytes * n_in);
            simd.decode(w.decoder, encoded, decoded);
            multiply(start, decoded);
        }
    });
}

/// Cuts decoded rows into tiles of `tile` rows, and single rows for the rest.
fn row_tiles(decoded: &[f32], n_in: usize, tile: usize) -> impl Iterator<Item = &[f32]> {
    let tiles = decoded.chunks_exact(tile * n_in);
    let rest = tiles.remainder();
    tiles.chain(rest.chunks_exact(n_in))
}

/// F32 weights as they lie in the file, which aligns them; `None` if there is something to decode.
fn as_f32(ty: TensorType, encoded: &[u8]) -> Option<&[f32]> {
    if ty == TensorType::F32 { bytemuck::try_cast_slice(encoded).ok() } else { None }
}

/// Splits `rows` into tasks of [`TASK_ROWS`]; the range of task `i`.
pub(crate) fn task_rows(rows: usize, i: usize) -> (usize, usize) {
    (i * TASK_ROWS, rows.min((i + 1) * TASK_ROWS))
}

/// Number of tasks for `rows`.
pub(crate) fn task_count(rows: usize) -> usize {
    rows.div_ceil(TASK_ROWS)
}
