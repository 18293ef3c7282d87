//! Attention of some rows and heads of a window: scores, softmax, weighted values, output gate.
//!
//! Neighbouring rows attend nearly the same positions, and a dozen query heads share a key/value
//! head. So a task takes a few rows with many heads, and all of them go through one chunk of
//! positions before the next: the cache is read from memory once for all.

use super::spread::part;
use crate::device::aligned_room;
use crate::share::Shared;
use crate::simd::elementwise::Gate;
use crate::simd::{AddValues, Cached, HEADS, Kernels, Scores, Softmax};
use kernels::QsaShape;
use kernels::host::{KvRows, QsaState, Selection};
use kernels::qsa::AttendQuery;
use kernels::rope;
use std::cell::RefCell;
use std::ops::Range;

/// Rows of a task at most.
pub(super) const ROWS: usize = 8;

/// Positions whose keys or values stay in the cache while all rows and heads of a task use them.
const CHUNK: usize = 64;

/// Working memory of a task.
struct Scratch {
    /// Queries `[rows, heads, dim]`, then weights `[rows, heads, positions]`.
    values: Vec<f32>,
    /// Positions of the rows, one row after the other.
    positions: Vec<u32>,
}

thread_local! {
    /// Of the running task.
    static SCRATCH: RefCell<Scratch> =
        const { RefCell::new(Scratch { values: Vec::new(), positions: Vec::new() }) };
}

/// A call's operands.
pub(super) struct Attention<'a> {
    pub(super) shape: &'a QsaShape,
    pub(super) query: &'a AttendQuery<'a, Vec<f32>, Vec<f32>, Selection>,
    pub(super) state: &'a QsaState,
    /// `(cos, sin)` of the window's rows.
    pub(super) angles: &'a [(f32, f32)],
    pub(super) simd: Kernels,
}

/// Rows and heads of a task.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// Rows of the window, of one slot, at most [`ROWS`].
    pub(super) rows: Range<usize>,
    pub(super) slot: usize,
    pub(super) kv_head: usize,
    /// Query heads of the key/value head.
    pub(super) heads: Range<usize>,
}

/// What a tile works on once its positions are known.
struct Prepared<'a> {
    tile: &'a Tile,
    positions: &'a [u32],
    /// Ends of the rows' positions.
    ends: [usize; ROWS + 1],
}

impl Prepared<'_> {
    /// Positions of the tile's row `i`.
    fn of(&self, i: usize) -> &[u32] {
        &self.positions[self.ends[i]..self.ends[i + 1]]
    }

    /// Positions of the row with the most.
    fn longest(&self) -> usize {
        (0..self.tile.rows.len()).map(|i| self.of(i).len()).max().unwrap_or(0)
    }

    /// Calls `work` with every chunk of every row and group of heads: row, first head and number of
    /// heads, first position of the chunk, positions.
    fn each(&self, mut work: impl FnMut(usize, Range<usize>, usize, &[u32])) {
        let heads = self.tile.heads.len();
        for first in (0..self.longest()).step_by(CHUNK) {
            for i in 0..self.tile.rows.len() {
                let all = self.of(i);
                let chunk = &all[first.min(all.len())..all.len().min(first + CHUNK)];
                for group in 0..heads.div_ceil(HEADS) {
                    work(i, part(heads, HEADS, group), first, chunk);
                }
            }
        }
    }
}

impl Attention<'_> {
    /// The outputs of a tile, into `out` `[rows of the window, query_dim]`.
    ///
    /// # Safety
    /// No other task has these heads of these rows.
    pub(super) unsafe fn run(&self, tile: &Tile, out: &Shared<'_, f32>) {
        SCRATCH.with_borrow_mut(|Scratch { values, positions }| {
            positions.clear();
            let mut ends = [0; ROWS + 1];
            for (i, t) in tile.rows.clone().enumerate() {
                let ranges = self.query.selection.ranges(t);
                ranges.for_each(|r| positions.extend(r.start as u32..r.end as u32));
                ends[i + 1] = positions.len();
            }
            let prepared = Prepared { tile, positions, ends };
            let (rows, dim) = (tile.rows.len() * tile.heads.len(), self.shape.head_dim);
            let (q, weights) =
                aligned_room(values, rows * (dim + prepared.longest())).split_at_mut(rows * dim);
            self.rotate_queries(tile, q);
            self.weigh(&prepared, q, weights);
            // SAFETY: passed on from the caller.
            unsafe { self.add_values(&prepared, weights, out) };
        });
    }

    /// Query (first) and gate of head `h` of window row `t`.
    fn both(&self, t: usize, h: usize) -> (&[f32], &[f32]) {
        let dim = self.shape.head_dim;
        self.query.q[(t * self.shape.heads + h) * 2 * dim..][..2 * dim].split_at(dim)
    }

    fn rotate_queries(&self, tile: &Tile, q: &mut [f32]) {
        let pairs = self.shape.rope_dims / 2;
        let heads = tile.rows.clone().flat_map(|t| tile.heads.clone().map(move |h| (t, h)));
        for ((t, h), q) in heads.zip(q.chunks_exact_mut(self.shape.head_dim)) {
            self.simd.rms_norm(self.both(t, h).0, self.query.norm, self.shape.eps, q);
            rope::apply(&self.angles[t * pairs..][..pairs], q);
        }
    }

    /// One key/value head of the slot's keys or values at the positions.
    fn cached<'a>(&self, rows: &'a KvRows, tile: &Tile, positions: &'a [u32]) -> Cached<'a> {
        let (dim, ty) = (self.shape.head_dim, rows.ty());
        let row_bytes = ty.bytes(self.shape.kv_dim());
        let first_byte = ty.bytes(tile.kv_head * dim);
        Cached { rows: rows.bytes(), row_bytes, first_byte, ty, dim, positions }
    }

    /// Softmax of the scores, `[rows, heads, longest]`.
    fn weigh(&self, prepared: &Prepared<'_>, q: &[f32], weights: &mut [f32]) {
        let (tile, stride, dim) = (prepared.tile, prepared.longest(), self.shape.head_dim);
        let (heads, keys) = (tile.heads.len(), &self.state.slot(tile.slot).k);
        prepared.each(|i, group, first, chunk| {
            let row = i * heads + group.start;
            self.simd.run(Scores {
                q: &q[row * dim..][..group.len() * dim],
                keys: self.cached(keys, tile, chunk),
                scale: 1.0 / (dim as f32).sqrt(),
                scores: &mut weights[row * stride + first..],
                scores_stride: stride,
            });
        });
        if stride == 0 {
            return;
        }
        for (row, weights) in weights.chunks_exact_mut(stride).enumerate() {
            let count = prepared.of(row / heads).len();
            self.simd.run(Softmax(&mut weights[..count]));
        }
    }

    /// Adds the weighted values and applies the output gates.
    ///
    /// # Safety
    /// As for [`Attention::run`].
    unsafe fn add_values(&self, prepared: &Prepared<'_>, weights: &[f32], out: &Shared<'_, f32>) {
        let (tile, stride, dim) = (prepared.tile, prepared.longest(), self.shape.head_dim);
        let (heads, values) = (tile.heads.len(), &self.state.slot(tile.slot).v);
        let of = |i: usize, group: Range<usize>| {
            let first = (tile.rows.start + i) * self.shape.heads + tile.heads.start;
            // SAFETY: by the caller's promise, and one of them at a time.
            unsafe { out.slice((first + group.start) * dim..(first + group.end) * dim) }
        };
        for i in 0..tile.rows.len() {
            of(i, 0..heads).fill(if prepared.of(i).is_empty() { f32::NAN } else { 0.0 });
        }
        prepared.each(|i, group, first, chunk| {
            self.simd.run(AddValues {
                weights: &weights[(i * heads + group.start) * stride + first..],
                weights_stride: stride,
                values: self.cached(values, tile, chunk),
                o: of(i, group),
            });
        });
        for (i, t) in tile.rows.clone().enumerate() {
            for (o, h) in of(i, 0..heads).chunks_exact_mut(dim).zip(tile.heads.clone()) {
                self.simd.map(Gate {}, [self.both(t, h).1], o);
            }
        }
    }
}
