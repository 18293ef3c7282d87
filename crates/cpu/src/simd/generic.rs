//! The inner loops over any vector type.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::lanes::{Lanes, MAX_UNROLL};
use super::{DeltaStep, MAX_TILE, Rows};

/// Dot products of `w` with the first `T` rows of `x`. The order of each sum depends on the length
/// and the vector type alone: `UNROLL` vectors in turn, then single vectors, then single values.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn dot<L: Lanes, const T: usize>(w: &[f32], x: &Rows<'_>) -> [f32; MAX_TILE] {
    let n = w.len();
    for x in &x[..T] {
        assert_eq!(x.len(), n);
    }
    // SAFETY: every index below `n` is in bounds of `w` and, by the assertion, of the rows.
    unsafe {
        let mut acc = [[L::splat(0.0); MAX_UNROLL]; T];
        let step = L::WIDTH * L::UNROLL;
        let mut i = 0;
        while i + step <= n {
            for j in 0..L::UNROLL {
                let at = i + j * L::WIDTH;
                let weights = L::load(w.as_ptr().add(at));
                for t in 0..T {
                    acc[t][j] = L::fma(weights, L::load(x[t].as_ptr().add(at)), acc[t][j]);
                }
            }
            i += step;
        }
        while i + L::WIDTH <= n {
            let weights = L::load(w.as_ptr().add(i));
            for t in 0..T {
                acc[t][0] = L::fma(weights, L::load(x[t].as_ptr().add(i)), acc[t][0]);
            }
            i += L::WIDTH;
        }
        let mut sums = [0.0; MAX_TILE];
        for t in 0..T {
            let mut all = acc[t][0];
            for j in 1..L::UNROLL {
                all = L::add(all, acc[t][j]);
            }
            let mut sum = L::sum(all);
            for (a, b) in w[i..].iter().zip(&x[t][i..]) {
                sum += a * b;
            }
            sums[t] = sum;
        }
        sums
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

/// One token of one head of the delta rule: two passes over the state, row by row.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn delta<L: Lanes>(step: DeltaStep<'_>) {
    let DeltaStep { s, q, k, v, decay, beta, d, o } = step;
    let width = v.len();
    assert!(s.len() == k.len() * width && q.len() == k.len());
    assert!(d.len() == width && o.len() == width);

    // d = S^T k with the decayed state.
    d.fill(0.0);
    for (row, &k) in s.chunks_exact(width).zip(k) {
        // SAFETY: passed on from the caller.
        unsafe { axpy::<L>(k * decay, row, d) };
    }
    for (d, &v) in d.iter_mut().zip(v) {
        *d = beta * (v - *d);
    }
    // S = exp(g) S + k d^T and o = S^T q.
    o.fill(0.0);
    for ((row, &k), &q) in s.chunks_exact_mut(width).zip(k).zip(q) {
        let mut i = 0;
        // SAFETY: rows, `d` and `o` have `width` values.
        unsafe {
            let (decays, keys, queries) = (L::splat(decay), L::splat(k), L::splat(q));
            while i + L::WIDTH <= width {
                let old = L::mul(decays, L::load(row.as_ptr().add(i)));
                let new = L::fma(keys, L::load(d.as_ptr().add(i)), old);
                L::store(row.as_mut_ptr().add(i), new);
                let read = L::fma(queries, new, L::load(o.as_ptr().add(i)));
                L::store(o.as_mut_ptr().add(i), read);
                i += L::WIDTH;
            }
        }
        for i in i..width {
            row[i] = decay * row[i] + k * d[i];
            o[i] += q * row[i];
        }
    }
}
