//! The delta rule over the tokens of a run, for one head.
//!
//! Columns of the state do not meet, so a block of them that stays in the first-level cache goes
//! through all tokens before the next block. A token takes two passes over the block's rows:
//! reading with the key, then updating and reading with the query. The first pass of the next token
//! rides on the second pass of this one. Each column's sums run over the rows in the same order
//! either way.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::dispatch::Loop;
use super::lanes::Lanes;
use super::math_lanes::{MAX_WIDTH, MathLanes};
use super::single::Single;
use std::ops::Range;

/// Vectors per block of columns: with three accumulators each they fit 16 registers.
const BLOCK: usize = 4;

/// Values of working memory per row of the state.
pub(crate) const DELTA_WORK: usize = BLOCK * MAX_WIDTH;

/// From this many tokens on a block of columns is copied to where its rows follow each other: as
/// part of the state, whose rows lie a power of two apart, it would not fit the first-level cache.
const COPY: usize = 3;

/// Tokens of one head, in order. See [`kernels::Gdn::gdn_scan`].
#[derive(Debug)]
pub(crate) struct DeltaRun<'a> {
    /// State `[dim, value_dim]`, advanced by the first `commit` tokens.
    pub(crate) s: &'a mut [f32],
    /// Tokens that enter the state; those behind them see each other's steps all the same.
    pub(crate) commit: usize,
    /// Width of a key and of a query.
    pub(crate) dim: usize,
    /// `[tokens, dim]`.
    pub(crate) q: &'a [f32],
    /// `[tokens, dim]`.
    pub(crate) k: &'a [f32],
    /// `[tokens, value_dim]`.
    pub(crate) v: &'a [f32],
    /// Per token.
    pub(crate) gates: &'a [DeltaGate],
    /// `[tokens, value_dim]`.
    pub(crate) o: &'a mut [f32],
    /// Working memory `[dim, DELTA_WORK]`.
    pub(crate) work: &'a mut [f32],
}

/// How a token changes the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaGate {
    /// `exp(g)`.
    pub(crate) decay: f32,
    /// Strength of the update.
    pub(crate) beta: f32,
}

impl Loop for DeltaRun<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(mut self) {
        let tokens = self.gates.len();
        assert!(self.q.len() == tokens * self.dim && self.k.len() == tokens * self.dim);
        assert!(self.v.len() == self.o.len() && self.commit <= tokens);
        if tokens == 0 {
            return;
        }
        let width = self.v.len() / tokens;
        assert!(self.v.len() == tokens * width && self.s.len() == self.dim * width);
        assert!(self.work.len() == self.dim * DELTA_WORK);
        let mut column = 0;
        // SAFETY: by the assertions; columns from `column` on, as many as a block has, exist.
        unsafe {
            while column + BLOCK * L::WIDTH <= width {
                self.block::<L, BLOCK>(width, column);
                column += BLOCK * L::WIDTH;
            }
            while column + L::WIDTH <= width {
                self.block::<L, 1>(width, column);
                column += L::WIDTH;
            }
            while column < width {
                self.block::<Single, 1>(width, column);
                column += 1;
            }
        }
    }
}

impl DeltaRun<'_> {
    /// All tokens for N vectors of columns from `first` on.
    ///
    /// # Safety
    /// As for [`Loop::run`]; the slices have the sizes that they are documented with, and there are
    /// that many columns.
    #[inline(always)]
    unsafe fn block<L: Lanes, const N: usize>(&mut self, width: usize, first: usize) {
        let (size, tokens, commit) = (N * L::WIDTH, self.gates.len(), self.commit);
        // SAFETY: passed on from the caller; the copy has room for a block of widest vectors.
        unsafe {
            if commit == tokens && tokens < COPY {
                let s = self.s.as_mut_ptr().add(first);
                return self.columns::<L, N>((s, width), first, 0..tokens);
            }
            for (row, copy) in self.s.chunks_exact(width).zip(self.work.chunks_exact_mut(size)) {
                copy.copy_from_slice(&row[first..first + size]);
            }
            let copy = self.work.as_mut_ptr();
            if commit > 0 {
                self.columns::<L, N>((copy, size), first, 0..commit);
                let copies = self.work.chunks_exact(size);
                for (row, copy) in self.s.chunks_exact_mut(width).zip(copies) {
                    row[first..first + size].copy_from_slice(copy);
                }
            }
            if commit < tokens {
                let copy = self.work.as_mut_ptr();
                self.columns::<L, N>((copy, size), first, commit..tokens);
            }
        }
    }

    /// These tokens for the N vectors of columns from `first` on, whose state is at `s`, a row every
    /// `stride` values.
    ///
    /// # Safety
    /// As for [`DeltaRun::block`]; there are `dim` rows of those columns at `s`, and at least one
    /// token.
    #[inline(always)]
    unsafe fn columns<L: Lanes, const N: usize>(
        &mut self,
        (s, stride): (*mut f32, usize),
        first: usize,
        tokens: Range<usize>,
    ) {
        let (dim, width) = (self.dim, self.v.len() / self.gates.len());
        // SAFETY: by the caller's promise.
        unsafe {
            let mut read = [L::splat(0.0); N];
            let decay = self.gates[tokens.start].decay;
            for (r, &k) in self.k[tokens.start * dim..][..dim].iter().enumerate() {
                let key = L::splat(k * decay);
                for j in 0..N {
                    let old = L::load(s.add(r * stride + j * L::WIDTH));
                    read[j] = L::fma(key, old, read[j]);
                }
            }
            for t in tokens.clone() {
                let DeltaGate { decay, beta } = self.gates[t];
                let mut d = [L::splat(0.0); N];
                for j in 0..N {
                    let v = L::load(self.v.as_ptr().add(t * width + first + j * L::WIDTH));
                    let minus_one = L::splat(-1.0);
                    d[j] = L::mul(L::splat(beta), L::fma(minus_one, read[j], v));
                }
                let q = &self.q[t * dim..][..dim];
                let k = &self.k[t * dim..][..dim];
                let decays = L::splat(decay);
                let mut o = [L::splat(0.0); N];
                macro_rules! update {
                    ($r:expr, |$new:ident, $j:ident| $read:block) => {
                        let (key, query) = (L::splat(k[$r]), L::splat(q[$r]));
                        for $j in 0..N {
                            let at = s.add($r * stride + $j * L::WIDTH);
                            let $new = L::fma(key, d[$j], L::mul(decays, L::load(at)));
                            L::store(at, $new);
                            o[$j] = L::fma(query, $new, o[$j]);
                            $read
                        }
                    };
                }
                if t + 1 < tokens.end {
                    let next = self.gates[t + 1];
                    let next_k = &self.k[(t + 1) * dim..][..dim];
                    read = [L::splat(0.0); N];
                    for r in 0..dim {
                        let next_key = L::splat(next_k[r] * next.decay);
                        update!(r, |new, j| { read[j] = L::fma(next_key, new, read[j]) });
                    }
                } else {
                    for r in 0..dim {
                        update!(r, |new, j| {});
                    }
                }
                for j in 0..N {
                    let at = self.o.as_mut_ptr().add(t * width + first + j * L::WIDTH);
                    L::store(at, o[j]);
                }
            }
        }
    }
}
