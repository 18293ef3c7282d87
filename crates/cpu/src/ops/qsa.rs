//! Indexed sparse attention: only selected rows of the cache are read.

use super::spread::part;
use crate::device::{Cpu, room};
use crate::share::Shared;
use crate::simd::elementwise::Gate;
use crate::simd::{Attend, HEADS, Kernels};
use kernels::host::{QsaState, Selection};
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::rope;
use kernels::scalar::relu;
use kernels::{Qsa, QsaKeys, QsaShape, Window};
use std::cell::RefCell;

/// Blocks scored per task.
const BLOCKS: usize = 512;

/// Working memory of attention.
struct Scratch {
    /// Queries and attention weights.
    values: Vec<f32>,
    positions: Vec<u32>,
}

thread_local! {
    /// Of the running task.
    static ATTEND: RefCell<Scratch> =
        const { RefCell::new(Scratch { values: Vec::new(), positions: Vec::new() }) };
}

impl Qsa for Cpu {
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, Vec<f32>, Vec<f32>>,
        state: &mut QsaState,
    ) {
        let (dim, kv_dim, simd) = (shape.head_dim, shape.kv_dim(), self.simd);
        let pairs = shape.rope_dims / 2;
        let angles = self.work.angles.of(shape.rope_dims, shape.rope_base, window);
        for run in window.runs() {
            let kv = state.slot_mut(run.slot, run.first_pos + run.len);
            assert_eq!(kv.k.len(), run.first_pos * kv_dim, "slot {} is elsewhere", run.slot);
            for t in run.rows() {
                for head in keys.k[t * kv_dim..][..kv_dim].chunks_exact(dim) {
                    let start = kv.k.len();
                    kv.k.resize(start + dim, 0.0);
                    let key = &mut kv.k[start..];
                    simd.rms_norm(head, keys.k_norm, shape.eps, key);
                    rope::apply(&angles[t * pairs..][..pairs], key);
                }
                kv.v.extend_from_slice(&keys.v[t * kv_dim..][..kv_dim]);
                let Some((raw, norm)) = keys.index else { continue };
                let width = shape.index_dim;
                kv.index.extend_from_slice(&raw[t * width..][..width]);
                if (run.pos(t) + 1).is_multiple_of(shape.block) {
                    let first = run.pos(t) + 1 - shape.block;
                    let start = kv.blocks.len();
                    kv.blocks.resize(start + width, 0.0);
                    let mean = room(&mut self.work.a, width);
                    pool_keys(&simd, &kv.index[first * width..], shape.block, mean);
                    let key = &mut kv.blocks[start..];
                    simd.rms_norm(mean, norm, shape.eps, key);
                    let angles = &mut self.work.index_angles;
                    angles.rotate(shape.index_rope_dims(), shape.rope_base, (first, key));
                }
            }
        }
    }

    fn qsa_select(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: Option<IndexQuery<'_, Vec<f32>, Vec<f32>>>,
        state: &QsaState,
        selection: &mut Selection,
    ) {
        selection.start(shape.block);
        let Some(IndexQuery { q, norm }) = query else {
            return window.iter().for_each(|(_, _, pos)| selection.push_all(pos));
        };
        let (width, simd) = (shape.index_dim, self.simd);
        let (query_len, pairs) = (shape.index_heads * width, shape.index_rope_dims() / 2);
        let angles = self.work.index_angles.of(shape.index_rope_dims(), shape.rope_base, window);
        for (t, slot, pos) in window.iter() {
            let blocks = (pos + 1) / shape.block;
            if blocks <= shape.max_blocks() {
                selection.push_all(pos);
                continue;
            }
            let heads = room(&mut self.work.a, query_len);
            let raw = q[t * query_len..][..query_len].chunks_exact(width);
            for (raw, head) in raw.zip(heads.chunks_exact_mut(width)) {
                simd.rms_norm(raw, norm, shape.eps, head);
                rope::apply(&angles[t * pairs..][..pairs], head);
            }
            let (heads, keys) = (&*heads, &state.slot(slot).blocks);
            let scores = room(&mut self.work.b, blocks);
            let shared = Shared::new(scores);
            let scale = 1.0 / (width as f32).sqrt();
            self.pool.run(blocks.div_ceil(BLOCKS), &|task| {
                for b in task * BLOCKS..blocks.min((task + 1) * BLOCKS) {
                    let key = &keys[b * width..][..width];
                    let relu = |head: &[f32]| relu(simd.dot(head, key));
                    let sum: f32 = heads.chunks_exact(width).map(relu).sum();
                    // SAFETY: a block belongs to one task.
                    unsafe { shared.set(b, sum * scale) };
                }
            });
            selection.push_best(pos, scores, shape.max_blocks());
        }
    }

    fn qsa_attend(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        query: AttendQuery<'_, Vec<f32>, Vec<f32>, Selection>,
        state: &QsaState,
        o: &mut Vec<f32>,
    ) {
        let (dim, rows, simd) = (shape.head_dim, window.rows(), self.simd);
        let pairs = shape.rope_dims / 2;
        let angles = self.work.angles.of(shape.rope_dims, shape.rope_base, window);
        let shared_by = shape.heads / shape.kv_heads;
        let parts = shared_by.div_ceil(HEADS);
        let out = Shared::new(&mut o[..rows * shape.query_dim()]);
        let row = |t: usize, slot: usize, task: usize| {
            let kv_head = task / parts;
            let own = part(shared_by, HEADS, task % parts);
            let heads = kv_head * shared_by + own.start..kv_head * shared_by + own.end;
            let first = (t * shape.heads + heads.start) * dim;
            let both = &query.q[2 * first..][..2 * heads.len() * dim];
            // SAFETY: a head of a row belongs to one task.
            let o = unsafe { out.slice(first..first + heads.len() * dim) };
            ATTEND.with_borrow_mut(|Scratch { values, positions }| {
                positions.clear();
                query.selection.ranges(t).for_each(|r| positions.extend(r.start as u32..r.end as u32));
                if positions.is_empty() {
                    return o.fill(f32::NAN);
                }
                let (q, weights) =
                    room(values, heads.len() * (dim + positions.len())).split_at_mut(heads.len() * dim);
                for (q, both) in q.chunks_exact_mut(dim).zip(both.chunks_exact(2 * dim)) {
                    simd.rms_norm(&both[..dim], query.norm, shape.eps, q);
                    rope::apply(&angles[t * pairs..][..pairs], q);
                }
                let kv = state.slot(slot);
                simd.run(Attend {
                    q,
                    dim,
                    k: &kv.k,
                    v: &kv.v,
                    stride: shape.kv_dim(),
                    first: kv_head * dim,
                    positions,
                    scale: 1.0 / (dim as f32).sqrt(),
                    weights,
                    o,
                });
                for (o, both) in o.chunks_exact_mut(dim).zip(both.chunks_exact(2 * dim)) {
                    simd.map(Gate {}, [&both[dim..]], o);
                }
            });
        };
        let tasks = shape.kv_heads * parts;
        for run in window.runs() {
            self.pool.run(run.len * tasks, &|task| {
                row(run.first_row + task / tasks, run.slot, task % tasks);
            });
        }
    }

    fn selected_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        (0..selection.rows()).map(|row| selection.blocks(row)).collect()
    }
}

/// Mean of the first `count` rows of `raw`, each as long as `mean`.
fn pool_keys(simd: &Kernels, raw: &[f32], count: usize, mean: &mut [f32]) {
    mean.fill(0.0);
    for key in raw.chunks_exact(mean.len()).take(count) {
        simd.axpy(1.0 / count as f32, key, mean);
    }
}
