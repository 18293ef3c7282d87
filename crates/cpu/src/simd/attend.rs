//! Attention of a few query heads that share a key/value head, over a list of cache positions.
//!
//! The heads go through the keys and values together, so that each is loaded once for all of them.
//! A score is one chain of sums over the features, an output value one chain over the positions:
//! its bits depend on neither the other heads nor how the positions are grouped.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::dispatch::Loop;
use super::lanes::Lanes;
use super::math_lanes::MathLanes;
use super::single::Single;

/// Query heads that go through the cache together at most.
pub(crate) const HEADS: usize = 4;
/// Positions scored together.
const KEYS: usize = 4;
/// Vectors of columns whose sums are kept in registers for all heads.
const COLUMNS: usize = 2;

/// One key/value head of some cache positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached<'a> {
    /// A row of `stride` values per position.
    pub(crate) rows: &'a [f32],
    pub(crate) stride: usize,
    /// First value of the head in a row.
    pub(crate) first: usize,
    /// Width of a head.
    pub(crate) dim: usize,
    /// The positions in question.
    pub(crate) positions: &'a [u32],
}

impl Cached<'_> {
    /// Asserts that every position has a row.
    fn check(&self) {
        let last = self.positions.iter().copied().max().unwrap_or(0) as usize;
        assert!(self.positions.is_empty() || self.dim <= self.rows.len());
        let end = last.saturating_mul(self.stride).saturating_add(self.first + self.dim);
        assert!(self.positions.is_empty() || end <= self.rows.len());
    }

    /// The head at position number `i` of the list.
    ///
    /// # Safety
    /// Checked, and there are more than `i` positions.
    #[inline(always)]
    unsafe fn row(&self, i: usize) -> *const f32 {
        // SAFETY: by the caller's promise.
        unsafe {
            let position = *self.positions.get_unchecked(i) as usize;
            self.rows.as_ptr().add(position * self.stride + self.first)
        }
    }
}

/// Calls a method with the number of heads as a constant.
macro_rules! for_heads {
    ($self:ident, $heads:expr, $method:ident::<$l:ident>) => {
        // SAFETY: checked; passed on from the caller.
        unsafe {
            match $heads {
                0 => {}
                1 => $self.$method::<$l, 1>(),
                2 => $self.$method::<$l, 2>(),
                3 => $self.$method::<$l, 3>(),
                HEADS => $self.$method::<$l, HEADS>(),
                heads => panic!("{heads} heads at a time"),
            }
        }
    };
}

/// `scores[h][i] = scale * (q[h] . key of position i)` for up to [`HEADS`] heads.
#[derive(Debug)]
pub(crate) struct Scores<'a> {
    /// `[heads, dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) keys: Cached<'a>,
    pub(crate) scale: f32,
    /// A row of `scores_stride` values per head, of which the first are written.
    pub(crate) scores: &'a mut [f32],
    pub(crate) scores_stride: usize,
}

impl Loop for Scores<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(mut self) {
        self.keys.check();
        let heads = self.q.len() / self.keys.dim;
        let end = heads.saturating_sub(1) * self.scores_stride + self.keys.positions.len();
        assert!(self.q.len() == heads * self.keys.dim && end <= self.scores.len());
        for_heads!(self, heads, heads::<L>);
    }
}

impl Scores<'_> {
    #[inline(always)]
    unsafe fn heads<L: MathLanes, const H: usize>(&mut self) {
        for first in (0..self.keys.positions.len()).step_by(KEYS) {
            // SAFETY: passed on from the caller.
            unsafe { self.tile::<L, H>(first) };
        }
    }

    /// Scores of [`KEYS`] positions from number `first` on; places past the end repeat the last.
    #[inline(always)]
    unsafe fn tile<L: MathLanes, const H: usize>(&mut self, first: usize) {
        let (count, dim) = (self.keys.positions.len(), self.keys.dim);
        // SAFETY: checked.
        unsafe {
            let mut keys = [self.keys.row(first); KEYS];
            for i in 1..KEYS {
                keys[i] = self.keys.row((first + i).min(count - 1));
            }
            let mut acc = [[L::splat(0.0); KEYS]; H];
            let mut i = 0;
            while i + L::WIDTH <= dim {
                let mut values = [L::splat(0.0); KEYS];
                for p in 0..KEYS {
                    values[p] = L::load(keys[p].add(i));
                }
                for h in 0..H {
                    let q = L::load(self.q.as_ptr().add(h * dim + i));
                    for p in 0..KEYS {
                        acc[h][p] = L::fma(q, values[p], acc[h][p]);
                    }
                }
                i += L::WIDTH;
            }
            for h in 0..H {
                let mut sums = L::sums(acc[h]);
                for i in i..dim {
                    let q = self.q[h * dim + i];
                    for p in 0..KEYS {
                        sums[p] += q * *keys[p].add(i);
                    }
                }
                for p in 0..KEYS.min(count - first) {
                    self.scores[h * self.scores_stride + first + p] = sums[p] * self.scale;
                }
            }
        }
    }
}

/// `o[h] += sum over i of weights[h][i] * value of position i` for up to [`HEADS`] heads.
#[derive(Debug)]
pub(crate) struct AddValues<'a> {
    /// A row of `weights_stride` values per head, of which the first are read.
    pub(crate) weights: &'a [f32],
    pub(crate) weights_stride: usize,
    pub(crate) values: Cached<'a>,
    /// `[heads, dim]`.
    pub(crate) o: &'a mut [f32],
}

impl Loop for AddValues<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(mut self) {
        self.values.check();
        let heads = self.o.len() / self.values.dim;
        let end = heads.saturating_sub(1) * self.weights_stride + self.values.positions.len();
        assert!(self.o.len() == heads * self.values.dim && end <= self.weights.len());
        for_heads!(self, heads, heads::<L>);
    }
}

impl AddValues<'_> {
    #[inline(always)]
    unsafe fn heads<L: MathLanes, const H: usize>(&mut self) {
        let (dim, mut column) = (self.values.dim, 0);
        // SAFETY: passed on from the caller; the columns exist.
        unsafe {
            while column + COLUMNS * L::WIDTH <= dim {
                self.columns::<L, H, COLUMNS>(column);
                column += COLUMNS * L::WIDTH;
            }
            while column + L::WIDTH <= dim {
                self.columns::<L, H, 1>(column);
                column += L::WIDTH;
            }
            while column < dim {
                self.columns::<Single, H, 1>(column);
                column += 1;
            }
        }
    }

    /// N vectors of columns.
    #[inline(always)]
    unsafe fn columns<L: Lanes, const H: usize, const N: usize>(&mut self, column: usize) {
        let dim = self.values.dim;
        // SAFETY: checked; the columns exist.
        unsafe {
            let o = self.o.as_mut_ptr().add(column);
            let weights = self.weights.as_ptr();
            let mut acc = [[L::splat(0.0); N]; H];
            for h in 0..H {
                for j in 0..N {
                    acc[h][j] = L::load(o.add(h * dim + j * L::WIDTH));
                }
            }
            for i in 0..self.values.positions.len() {
                let row = self.values.row(i).add(column);
                let mut values = [L::splat(0.0); N];
                for j in 0..N {
                    values[j] = L::load(row.add(j * L::WIDTH));
                }
                for h in 0..H {
                    let weight = L::splat(*weights.add(h * self.weights_stride + i));
                    for j in 0..N {
                        acc[h][j] = L::fma(weight, values[j], acc[h][j]);
                    }
                }
            }
            for h in 0..H {
                for j in 0..N {
                    L::store(o.add(h * dim + j * L::WIDTH), acc[h][j]);
                }
            }
        }
    }
}
