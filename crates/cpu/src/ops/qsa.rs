//! Indexed sparse attention: only selected rows of the cache are read.

use crate::device::{Cpu, room};
use crate::share::Shared;
use crate::simd::Kernels;
use kernels::host::{QsaState, Selection};
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::rope::{self, Rope};
use kernels::scalar::{relu, sigmoid};
use kernels::{Qsa, QsaKeys, QsaShape, Window};
use std::cell::RefCell;

/// Blocks scored per task.
const BLOCKS: usize = 512;

thread_local! {
    /// Query and attention weights of the running task.
    static ATTEND: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
        let rope = Rope::new(shape.rope_dims, shape.rope_base);
        let index_rope = Rope::new(shape.index_rope_dims(), shape.rope_base);
        for run in window.runs() {
            let kv = state.slot_mut(run.slot, run.first_pos + run.len);
            assert_eq!(kv.k.len(), run.first_pos * kv_dim, "slot {} is elsewhere", run.slot);
            for t in run.rows() {
                self.work.angles.clear();
                rope.angles(run.pos(t), &mut self.work.angles);
                for head in keys.k[t * kv_dim..][..kv_dim].chunks_exact(dim) {
                    let start = kv.k.len();
                    kv.k.resize(start + dim, 0.0);
                    let key = &mut kv.k[start..];
                    simd.rms_norm(head, keys.k_norm, shape.eps, key);
                    rope::apply(&self.work.angles, key);
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
                    index_rope.rotate(first, key);
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
        let query_len = shape.index_heads * width;
        let rope = Rope::new(shape.index_rope_dims(), shape.rope_base);
        for (t, slot, pos) in window.iter() {
            let blocks = (pos + 1) / shape.block;
            if blocks <= shape.max_blocks() {
                selection.push_all(pos);
                continue;
            }
            let heads = room(&mut self.work.a, query_len);
            self.work.angles.clear();
            rope.angles(pos, &mut self.work.angles);
            let raw = q[t * query_len..][..query_len].chunks_exact(width);
            for (raw, head) in raw.zip(heads.chunks_exact_mut(width)) {
                simd.rms_norm(raw, norm, shape.eps, head);
                rope::apply(&self.work.angles, head);
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
        let (dim, heads, simd) = (shape.head_dim, shape.heads, self.simd);
        let rope = Rope::new(shape.rope_dims, shape.rope_base);
        self.work.angles.clear();
        for (_, _, pos) in window.iter() {
            rope.angles(pos, &mut self.work.angles);
        }
        let angles = &self.work.angles;
        let rows: Vec<(usize, usize, usize)> = window.iter().collect();
        let out = Shared::new(&mut o[..rows.len() * shape.query_dim()]);
        self.pool.run(rows.len() * heads, &|task| {
            let ((t, slot, _), h) = (rows[task / heads], task % heads);
            let both = &query.q[task * 2 * dim..][..2 * dim];
            let kv_head = h / (heads / shape.kv_heads);
            ATTEND.with_borrow_mut(|work| {
                let count = query.selection.count(t);
                let (q, weights) = room(work, dim + count).split_at_mut(dim);
                simd.rms_norm(&both[..dim], query.norm, shape.eps, q);
                rope::apply(&angles[t * rope.pairs()..][..rope.pairs()], q);

                let kv = state.slot(slot);
                let at = |p: usize| p * shape.kv_dim() + kv_head * dim;
                let positions = || query.selection.ranges(t).flatten();
                let scale = 1.0 / (dim as f32).sqrt();
                for (w, p) in weights.iter_mut().zip(positions()) {
                    *w = simd.dot(q, &kv.k[at(p)..][..dim]) * scale;
                }
                softmax(weights);
                // SAFETY: a head of a row belongs to one task.
                let o = unsafe { out.slice(task * dim..(task + 1) * dim) };
                o.fill(if count == 0 { f32::NAN } else { 0.0 });
                for (&w, p) in weights.iter().zip(positions()) {
                    simd.axpy(w, &kv.v[at(p)..][..dim], o);
                }
                for (o, &gate) in o.iter_mut().zip(&both[dim..]) {
                    *o *= sigmoid(gate);
                }
            });
        });
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

fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for s in scores.iter_mut() {
        *s = (*s - largest).exp();
        total += *s;
    }
    let scale = 1.0 / total;
    scores.iter_mut().for_each(|s| *s *= scale);
}
