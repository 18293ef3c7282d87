//! The inner loops over any vector type.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::lanes::Lanes;
use super::stored::Stored;
use super::{Rows, Sums};

/// Products of R weight rows (`n` values each, one after the other in `w`) with the first T rows of
/// `x`. Weights are of the stored type `E`. A sum runs through the row one vector after the other,
/// then single values: its bits depend on the row's length and the vector type, not on R or T.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn tile<L: Lanes, E: Stored, const R: usize, const T: usize>(
    w: &[u8],
    n: usize,
    x: &Rows<'_>,
    sums: &mut Sums,
) {
    assert_eq!(w.len(), R * n * E::BYTES);
    for x in &x[..T] {
        assert_eq!(x.len(), n);
    }
    // SAFETY: by the assertions every index below `n` is in bounds of the rows of `w` and `x`.
    unsafe {
        let mut acc = [[L::splat(0.0); T]; R];
        let mut i = 0;
        while i + L::WIDTH <= n {
            let mut values = [L::splat(0.0); T];
            for t in 0..T {
                values[t] = L::load(x[t].as_ptr().add(i));
            }
            for r in 0..R {
                let weights = E::load::<L>(w.as_ptr().add((r * n + i) * E::BYTES));
                for t in 0..T {
                    acc[r][t] = L::fma(weights, values[t], acc[r][t]);
                }
            }
            i += L::WIDTH;
        }
        for r in 0..R {
            for t in 0..T {
                let mut sum = L::sum(acc[r][t]);
                let rest = w[(r * n + i) * E::BYTES..].chunks_exact(E::BYTES);
                for (a, b) in rest.zip(&x[t][i..]) {
                    sum += E::value(a) * b;
                }
                sums[r][t] = sum;
            }
        }
    }
}

/// `a . b` with several accumulators, for short vectors by themselves: attention, norms.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    const CHAINS: usize = 4;
    assert_eq!(a.len(), b.len());
    let n = a.len();
    // SAFETY: every index below `n` is in bounds of both.
    unsafe {
        let mut acc = [L::splat(0.0); CHAINS];
        let mut i = 0;
        while i + CHAINS * L::WIDTH <= n {
            for j in 0..CHAINS {
                let at = i + j * L::WIDTH;
                acc[j] = L::fma(L::load(a.as_ptr().add(at)), L::load(b.as_ptr().add(at)), acc[j]);
            }
            i += CHAINS * L::WIDTH;
        }
        while i + L::WIDTH <= n {
            acc[0] = L::fma(L::load(a.as_ptr().add(i)), L::load(b.as_ptr().add(i)), acc[0]);
            i += L::WIDTH;
        }
        let mut sum = L::sum(L::add(L::add(acc[0], acc[1]), L::add(acc[2], acc[3])));
        for (a, b) in a[i..].iter().zip(&b[i..]) {
            sum += a * b;
        }
        sum
    }
}

/// `y += a x`.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn axpy<L: Lanes>(a: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    let n = x.len();
    let mut i = 0;
    // SAFETY: every index below `n` is in bounds of both slices.
    unsafe {
        let factor = L::splat(a);
        while i + L::WIDTH <= n {
            let old = L::load(y.as_ptr().add(i));
            let new = L::fma(factor, L::load(x.as_ptr().add(i)), old);
            L::store(y.as_mut_ptr().add(i), new);
            i += L::WIDTH;
        }
    }
    for (y, x) in y[i..].iter_mut().zip(&x[i..]) {
        *y += a * x;
    }
}
