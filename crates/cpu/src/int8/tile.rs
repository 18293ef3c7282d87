//! The product of one or two panels with a few rows of activations.
#![expect(clippy::needless_range_loop, reason = "indices run over registers of several arrays")]

use super::activation::ActBlock;
use super::lanes::RowLanes;
use super::panel::Panel;
use super::{GROUP, MAX_TILE};

/// Adds the products of the first P of `panels` over their first `groups` groups of 32 values with
/// T blocks of activations to `sums`, `[T][P][ROWS]`.
///
/// `SPLIT` weight scales share a group of 32 (1 or 2); `OFFSETS` says that panels have offsets. Per
/// weight row and window row, in this order for every T and P:
///
/// ```text
/// for each group: for each scale in it:
///     sum += codes . q * (scale * x.scale);  sum += offset * x.sum
/// ```
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller; the first T of `x` must be valid.
#[inline(always)]
pub(crate) unsafe fn tile<
    L: RowLanes,
    const T: usize,
    const P: usize,
    const SPLIT: usize,
    const OFFSETS: bool,
>(
    panels: &[Panel; 2],
    groups: usize,
    x: &[*const ActBlock; MAX_TILE],
    sums: &mut [f32],
) {
    const {
        assert!(T <= MAX_TILE && P <= 2 && (SPLIT == 1 || SPLIT == 2));
    }
    assert!(groups * GROUP <= super::CHUNK && sums.len() == T * P * L::ROWS);
    // SAFETY: by the assertions, quads and groups are inside the panels and the blocks of `x`.
    unsafe {
        let mut total = [[L::splat_f32(0.0); P]; T];
        for t in 0..T {
            for p in 0..P {
                total[t][p] = L::load_f32(sums.as_ptr().add((t * P + p) * L::ROWS));
            }
        }
        for g in 0..groups {
            for s in 0..SPLIT {
                let part = SPLIT * g + s;
                let sum = group_sums::<L, T, P, SPLIT>(panels, part, x);
                for p in 0..P {
                    let scales = L::load_f32(panels[p].scales.as_ptr().add(part * L::ROWS));
                    for t in 0..T {
                        let scale =
                            L::mul_f32(scales, L::splat_f32(*(*x[t]).scale.as_ptr().add(g)));
                        total[t][p] = L::fma(L::to_f32(sum[t][p]), scale, total[t][p]);
                    }
                    if OFFSETS {
                        let offsets = L::load_f32(panels[p].offsets.as_ptr().add(part * L::ROWS));
                        for t in 0..T {
                            // The bias is -128 times the sum: the product is as exact as the sum.
                            let scale = L::splat_f32(*(*x[t]).scale.as_ptr().add(g) / -128.0);
                            let bias = L::to_f32(L::splat(bias::<SPLIT>(&*x[t], part)));
                            let x_sum = L::mul_f32(scale, bias);
                            total[t][p] = L::fma(offsets, x_sum, total[t][p]);
                        }
                    }
                }
            }
        }
        for t in 0..T {
            for p in 0..P {
                L::store_f32(sums.as_mut_ptr().add((t * P + p) * L::ROWS), total[t][p]);
            }
        }
    }
}

/// The integer sums of part `part`: a group, or half of one where two scales share it.
///
/// # Safety
/// As for [`tile`]; the part must lie inside the panels.
#[inline(always)]
unsafe fn group_sums<L: RowLanes, const T: usize, const P: usize, const SPLIT: usize>(
    panels: &[Panel; 2],
    part: usize,
    x: &[*const ActBlock; MAX_TILE],
) -> [[L::V; P]; T] {
    // SAFETY: passed on.
    unsafe {
        let mut sum = [[L::splat(0); P]; T];
        let mut values = [std::ptr::null(); T];
        let quads = GROUP / 4 / SPLIT;
        for t in 0..T {
            let x = &*x[t];
            values[t] = x.q.as_ptr().add(4 * part * quads);
            if L::BIAS != 0 {
                sum[t] = [L::splat(bias::<SPLIT>(x, part)); P];
            }
        }
        let mut codes = [std::ptr::null(); P];
        for p in 0..P {
            codes[p] = panels[p].codes.as_ptr().add(part * quads * 4 * L::ROWS);
        }
        L::dots(&mut sum, quads, codes, values);
        sum
    }
}

/// The bias of part `part` as the bits of a lane.
///
/// # Safety
/// The part must lie inside the block.
#[inline(always)]
unsafe fn bias<const SPLIT: usize>(x: &ActBlock, part: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let bias = if SPLIT == 1 { x.bias32.as_ptr() } else { x.bias16.as_ptr() };
        *bias.add(part) as u32
    }
}
