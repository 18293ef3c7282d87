//! Attention of a few query heads that share a key/value head, over a list of cache positions.
//!
//! The heads go through the keys and values together, so that each is loaded once for all of them.
//! A score is one chain of sums over the features, an output value one chain over the positions:
//! its bits depend on neither the other heads nor how the positions are grouped, and they are those
//! of decoded keys and values.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::cached::{Cached, GROUP, KvFormat};
use super::dispatch::Loop;
use super::lanes::Lanes;
use super::math_lanes::MathLanes;
use super::single::Single;
use kernels::KvType;
use quant::{F16, F32, Q8_0};

/// Query heads that go through the cache together at most.
pub(crate) const HEADS: usize = 4;
/// Positions scored together.
const KEYS: usize = 4;
/// Vectors of columns whose sums are kept in registers for all heads.
const COLUMNS: usize = 2;

/// Calls a method with the format of the cache as a type and the number of heads as a constant.
macro_rules! for_heads {
    ($self:ident, $heads:expr, $l:ident as $format:ident) => {
        // SAFETY: checked; passed on from the caller.
        unsafe {
            match $heads {
                0 => {}
                1 => $self.heads::<$l, $format, 1>(),
                2 => $self.heads::<$l, $format, 2>(),
                3 => $self.heads::<$l, $format, 3>(),
                HEADS => $self.heads::<$l, $format, HEADS>(),
                heads => panic!("{heads} heads at a time"),
            }
        }
    };
    ($self:ident, $ty:expr, $heads:expr, $l:ident) => {
        match $ty {
            KvType::F32 => for_heads!($self, $heads, $l as F32),
            KvType::F16 => for_heads!($self, $heads, $l as F16),
            KvType::Q8_0 => for_heads!($self, $heads, $l as Q8_0),
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
        for_heads!(self, self.keys.ty, heads, L);
    }
}

impl Scores<'_> {
    #[inline(always)]
    unsafe fn heads<L: MathLanes, F: KvFormat, const H: usize>(&mut self) {
        for first in (0..self.keys.positions.len()).step_by(KEYS) {
            // SAFETY: passed on from the caller.
            unsafe { self.tile::<L, F, H>(first) };
        }
    }

    /// Scores of [`KEYS`] positions from number `first` on; places past the end repeat the last.
    #[inline(always)]
    unsafe fn tile<L: MathLanes, F: KvFormat, const H: usize>(&mut self, first: usize) {
        let (count, dim) = (self.keys.positions.len(), self.keys.dim);
        // SAFETY: checked.
        unsafe {
            let mut keys = [self.keys.row(first); KEYS];
            for i in 1..KEYS {
                keys[i] = self.keys.row((first + i).min(count - 1));
            }
            let mut acc = [[L::splat(0.0); KEYS]; H];
            let mut i = 0;
            while i + GROUP <= dim {
                let scales = scales::<L, F>(&keys, i);
                let end = i + GROUP;
                while i < end {
                    self.multiply::<L, F, H>((&keys, &scales), i, &mut acc);
                    i += L::WIDTH;
                }
            }
            while i + L::WIDTH <= dim {
                let scales = scales::<L, F>(&keys, i);
                self.multiply::<L, F, H>((&keys, &scales), i, &mut acc);
                i += L::WIDTH;
            }
            for h in 0..H {
                let mut sums = L::sums(acc[h]);
                for i in i..dim {
                    let q = self.q[h * dim + i];
                    for p in 0..KEYS {
                        let scale = F::scale::<Single>(keys[p], i);
                        sums[p] += q * F::load::<Single>(keys[p], i, scale);
                    }
                }
                for p in 0..KEYS.min(count - first) {
                    self.scores[h * self.scores_stride + first + p] = sums[p] * self.scale;
                }
            }
        }
    }

    /// Adds the products of a vector of features, from number `i` on.
    #[inline(always)]
    unsafe fn multiply<L: MathLanes, F: KvFormat, const H: usize>(
        &self,
        (keys, scales): (&[*const u8; KEYS], &[L::V; KEYS]),
        i: usize,
        acc: &mut [[L::V; KEYS]; H],
    ) {
        // SAFETY: checked; the features exist.
        unsafe {
            let mut values = [L::splat(0.0); KEYS];
            for p in 0..KEYS {
                values[p] = F::load::<L>(keys[p], i, scales[p]);
            }
            for h in 0..H {
                let q = L::load(self.q.as_ptr().add(h * self.keys.dim + i));
                for p in 0..KEYS {
                    acc[h][p] = L::fma(q, values[p], acc[h][p]);
                }
            }
        }
    }
}

/// The keys' scales of the features from number `i` on.
///
/// # Safety
/// As for [`KvFormat::scale`].
#[inline(always)]
unsafe fn scales<L: Lanes, F: KvFormat>(keys: &[*const u8; KEYS], i: usize) -> [L::V; KEYS] {
    // SAFETY: passed on.
    unsafe {
        let mut scales = [L::splat(1.0); KEYS];
        for p in 0..KEYS {
            scales[p] = F::scale::<L>(keys[p], i);
        }
        scales
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
        for_heads!(self, self.values.ty, heads, L);
    }
}

impl AddValues<'_> {
    #[inline(always)]
    unsafe fn heads<L: MathLanes, F: KvFormat, const H: usize>(&mut self) {
        let (dim, mut column) = (self.values.dim, 0);
        // SAFETY: passed on from the caller; the columns exist.
        unsafe {
            while column + COLUMNS * L::WIDTH <= dim {
                self.columns::<L, F, H, COLUMNS>(column);
                column += COLUMNS * L::WIDTH;
            }
            while column + L::WIDTH <= dim {
                self.columns::<L, F, H, 1>(column);
                column += L::WIDTH;
            }
            while column < dim {
                self.columns::<Single, F, H, 1>(column);
                column += 1;
            }
        }
    }

    /// N vectors of columns, which share a scale: together they divide [`GROUP`].
    #[inline(always)]
    unsafe fn columns<L: Lanes, F: KvFormat, const H: usize, const N: usize>(
        &mut self,
        column: usize,
    ) {
        const { assert!(GROUP.is_multiple_of(N * L::WIDTH)) };
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
                let row = self.values.row(i);
                let scale = F::scale::<L>(row, column);
                let mut values = [L::splat(0.0); N];
                for j in 0..N {
                    values[j] = F::load::<L>(row, column + j * L::WIDTH, scale);
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
