//! Attention of a few query heads that share a key/value head over a list of cache positions.
//!
//! The heads go through the keys and values together, so that each is loaded once for all of them.
//! A score is one chain of sums over the features, an output value one chain over the positions: its
//! bits depend on neither the other heads nor how the positions are grouped.
#![expect(
    clippy::needless_range_loop,
    reason = "indices run over registers, several arrays at once"
)]

use super::dispatch::Loop;
use super::lanes::Lanes;
use super::math::softmax;
use super::math_lanes::MathLanes;
use super::single::Single;

/// Query heads that go through the cache together at most.
pub(crate) const HEADS: usize = 4;
/// Positions scored together.
const KEYS: usize = 4;
/// Vectors of columns that the outputs of all heads are kept in registers for.
const COLUMNS: usize = 2;
/// Positions whose values are read before the next columns: they stay in the cache.
const CHUNK: usize = 64;

/// Queries of 1 to [`HEADS`] heads and what they attend.
#[derive(Debug)]
pub(crate) struct Attend<'a> {
    /// `[heads, dim]`.
    pub(crate) q: &'a [f32],
    /// Width of a head.
    pub(crate) dim: usize,
    /// Keys and values of all positions, a row of `stride` values each.
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) stride: usize,
    /// First value of the key/value head in a row.
    pub(crate) first: usize,
    /// Positions to attend.
    pub(crate) positions: &'a [u32],
    /// Factor of the scores.
    pub(crate) scale: f32,
    /// Working memory `[heads, positions]`.
    pub(crate) weights: &'a mut [f32],
    /// `[heads, dim]`.
    pub(crate) o: &'a mut [f32],
}

impl Loop for Attend<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(mut self) {
        let (count, dim) = (self.positions.len(), self.dim);
        let heads = self.q.len() / dim;
        assert!(self.q.len() == heads * dim && self.o.len() == heads * dim);
        assert!(self.weights.len() == heads * count);
        let last = self.positions.iter().copied().max().unwrap_or(0) as usize;
        let end = last * self.stride + self.first + dim;
        assert!(count == 0 || (end <= self.k.len() && end <= self.v.len()));
        // SAFETY: by the assertions all accesses of the heads' keys and values are in bounds.
        unsafe {
            match heads {
                1 => self.heads::<L, 1>(),
                2 => self.heads::<L, 2>(),
                3 => self.heads::<L, 3>(),
                HEADS => self.heads::<L, HEADS>(),
                _ => panic!("{heads} heads at a time"),
            }
        }
    }
}

impl Attend<'_> {
    /// # Safety
    /// As for [`Loop::run`]; H is the number of heads, and all positions have keys and values.
    #[inline(always)]
    unsafe fn heads<L: MathLanes, const H: usize>(&mut self) {
        let count = self.positions.len();
        // SAFETY: by the caller's promise.
        unsafe {
            for first in (0..count).step_by(KEYS) {
                self.scores::<L, H>(first);
            }
            for head in self.weights.chunks_exact_mut(count.max(1)) {
                softmax::<L>(head);
            }
            self.o.fill(0.0);
            for first in (0..count).step_by(CHUNK) {
                let chunk = first..count.min(first + CHUNK);
                let mut column = 0;
                while column + COLUMNS * L::WIDTH <= self.dim {
                    self.values::<L, H, COLUMNS>(chunk.clone(), column);
                    column += COLUMNS * L::WIDTH;
                }
                while column + L::WIDTH <= self.dim {
                    self.values::<L, H, 1>(chunk.clone(), column);
                    column += L::WIDTH;
                }
                while column < self.dim {
                    self.values::<Single, H, 1>(chunk.clone(), column);
                    column += 1;
                }
            }
        }
    }

    /// Scores of the [`KEYS`] positions from number `first` on; places past the end repeat the last.
    #[inline(always)]
    unsafe fn scores<L: MathLanes, const H: usize>(&mut self, first: usize) {
        let (count, dim) = (self.positions.len(), self.dim);
        // SAFETY: by the promise of the caller of `heads`.
        unsafe {
            let mut keys = [self.k.as_ptr(); KEYS];
            for (i, key) in keys.iter_mut().enumerate() {
                let p = self.positions[(first + i).min(count - 1)] as usize;
                *key = key.add(p * self.stride + self.first);
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
                    self.weights[h * count + first + p] = sums[p] * self.scale;
                }
            }
        }
    }

    /// Adds the weighted values of the positions numbered `chunk` to N vectors of columns.
    #[inline(always)]
    unsafe fn values<L: Lanes, const H: usize, const N: usize>(
        &mut self,
        chunk: std::ops::Range<usize>,
        column: usize,
    ) {
        let (count, dim) = (self.positions.len(), self.dim);
        // SAFETY: by the promise of the caller of `heads`; the columns exist.
        unsafe {
            let o = self.o.as_mut_ptr().add(column);
            let v = self.v.as_ptr().add(self.first + column);
            let weights = self.weights.as_ptr();
            let mut acc = [[L::splat(0.0); N]; H];
            for h in 0..H {
                for j in 0..N {
                    acc[h][j] = L::load(o.add(h * dim + j * L::WIDTH));
                }
            }
            for i in chunk {
                let row = v.add(self.positions[i] as usize * self.stride);
                let mut values = [L::splat(0.0); N];
                for j in 0..N {
                    values[j] = L::load(row.add(j * L::WIDTH));
                }
                for h in 0..H {
                    let weight = L::splat(*weights.add(h * count + i));
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
