//! The product of a panel with a few rows of activations.
#![expect(clippy::needless_range_loop, reason = "indices run over registers of several arrays")]

use super::activation::ActBlock;
use super::lanes::RowLanes;
use super::panel::Panel;
use super::{GROUP, MAX_TILE};

/// Adds the products of `panel` over its first `groups` groups of 32 values with T blocks of
/// activations to `sums`, `[T][ROWS]`.
///
/// `SPLIT` weight scales share a group of 32 (1 or 2); `OFFSETS` says that the panel has offsets. Per
/// weight row and window row, in this order for every T:
///
/// ```text
/// for each group: for each scale in it: sum += codes . q * (scale * x.scale);  sum += offset * x.sum
/// ```
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller; the first T of `x` must be valid.
#[inline(always)]
pub(crate) unsafe fn tile<L: RowLanes, const T: usize, const SPLIT: usize, const OFFSETS: bool>(
    panel: &Panel,
    groups: usize,
    x: &[*const ActBlock; MAX_TILE],
    sums: &mut [f32],
) {
    const {
        assert!(T <= MAX_TILE && (SPLIT == 1 || SPLIT == 2));
    }
    assert!(groups * GROUP <= super::CHUNK && sums.len() == T * L::ROWS);
    // SAFETY: by the assertions, quads and groups are inside the panel and the blocks of `x`.
    unsafe {
        let mut total = [L::splat_f32(0.0); T];
        for t in 0..T {
            total[t] = L::load_f32(sums.as_ptr().add(t * L::ROWS));
        }
        for g in 0..groups {
            for s in 0..SPLIT {
                let part = SPLIT * g + s;
                let mut sum = [L::splat(0); T];
                for t in 0..T {
                    let bias = &*x[t];
                    sum[t] = match (L::BIAS, SPLIT) {
                        (0, _) => L::splat(0),
                        (_, 1) => L::splat(*bias.bias32.get_unchecked(part) as u32),
                        _ => L::splat(*bias.bias16.get_unchecked(part) as u32),
                    };
                }
                let quads = GROUP / 4 / SPLIT;
                let codes = panel.codes.as_ptr().add(part * quads * 4 * L::ROWS);
                let mut values = [std::ptr::null(); T];
                for t in 0..T {
                    values[t] = (*x[t]).q.as_ptr().add(4 * part * quads);
                }
                L::dots(&mut sum, quads, codes, values);
                let scales = L::load_f32(panel.scales.as_ptr().add(part * L::ROWS));
                for t in 0..T {
                    let x_scale = L::splat_f32(*(*x[t]).scale.get_unchecked(g));
                    total[t] = L::fma(L::to_f32(sum[t]), L::mul_f32(scales, x_scale), total[t]);
                }
                if OFFSETS {
                    let offsets = L::load_f32(panel.offsets.as_ptr().add(part * L::ROWS));
                    for t in 0..T {
                        let x = &*x[t];
                        let x_sum = if SPLIT == 1 {
                            *x.sum32.get_unchecked(part)
                        } else {
                            *x.sum16.get_unchecked(part)
                        };
                        total[t] = L::fma(offsets, L::splat_f32(x_sum), total[t]);
                    }
                }
            }
        }
        for t in 0..T {
            L::store_f32(sums.as_mut_ptr().add(t * L::ROWS), total[t]);
        }
    }
}
