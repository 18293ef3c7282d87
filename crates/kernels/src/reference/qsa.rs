//! Indexed sparse attention.

use super::{Reference, dot, rms_norm};
use crate::host::{KvRows, KvSlot, QsaState, Selection};
use crate::qsa::{AttendQuery, IndexQuery};
use crate::rope::Rope;
use crate::scalar::{relu, sigmoid};
use crate::{Error, Qsa, QsaKeys, QsaShape, Window};
use std::ops::Range;

impl Qsa for Reference {
    fn qsa_append(
        &mut self,
        shape: &QsaShape,
        window: &Window,
        keys: QsaKeys<'_, Vec<f32>, Vec<f32>>,
        state: &mut QsaState,
    ) {
        let (d, kv_dim, eps) = (shape.head_dim, shape.kv_dim(), shape.eps);
        let rope = Rope::new(shape.rope());
        for run in window.runs() {
            let kv = state.extend(shape, run);
            for t in run.rows() {
                for head in keys.k[t * kv_dim..][..kv_dim].chunks_exact(d) {
                    let mut key = vec![0.0; d];
                    rms_norm(head, keys.k_norm, eps, &mut key);
                    rope.rotate(run.pos(t), &mut key);
                    kv.k.append(&key);
                }
                kv.v.append(&keys.v[t * kv_dim..][..kv_dim]);
                if let Some((raw, norm)) = keys.index {
                    let width = shape.index_dim;
                    kv.index.extend_from_slice(&raw[t * width..][..width]);
                    if (run.pos(t) + 1).is_multiple_of(shape.block) {
                        let first = run.pos(t) + 1 - shape.block;
                        let key = block_key(shape, &kv.index[first * width..], norm, first);
                        kv.blocks.extend_from_slice(&key);
                    }
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
        let width = shape.index_dim;
        let rope = Rope::new(shape.index_rope());
        for (t, slot, pos) in window.iter() {
            let Some(IndexQuery { q, norm }) = &query else {
                selection.push_all(pos);
                continue;
            };
            let mut heads = vec![0.0; shape.index_heads * width];
            let raw = &q[t * heads.len()..][..heads.len()];
            for (raw, head) in raw.chunks_exact(width).zip(heads.chunks_exact_mut(width)) {
                rms_norm(raw, norm, shape.eps, head);
                rope.rotate(pos, head);
            }
            let blocks = (pos + 1) / shape.block;
            let keys = state.slot(slot).blocks.chunks_exact(width).take(blocks);
            let score = |key: &[f32]| {
                let relu = |head: &[f32]| f64::from(relu(dot(head, key) as f32));
                let sum: f64 = heads.chunks_exact(width).map(relu).sum();
                (sum / (width as f64).sqrt()) as f32
            };
            let scores: Vec<f32> = keys.map(score).collect();
            selection.push_best(pos, &scores, shape.max_blocks());
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
        let d = shape.head_dim;
        let rope = Rope::new(shape.rope());
        let group = shape.heads / shape.kv_heads;
        for (t, slot, pos) in window.iter() {
            let kv = state.slot(slot);
            let positions: Vec<usize> = query.selection.ranges(t).flatten().collect();
            if positions.is_empty() {
                o[t * shape.query_dim()..][..shape.query_dim()].fill(f32::NAN);
                continue;
            }
            let stored = |rows: &KvRows| -> Vec<Vec<f32>> {
                positions.iter().map(|&p| rows.rows(p..p + 1)).collect()
            };
            let (keys, values) = (stored(&kv.k), stored(&kv.v));
            for h in 0..shape.heads {
                let both = &query.q[(t * shape.heads + h) * 2 * d..][..2 * d];
                let (raw, gate) = both.split_at(d);
                let mut q = vec![0.0; d];
                rms_norm(raw, query.norm, shape.eps, &mut q);
                rope.rotate(pos, &mut q);

                let first = h / group * d;
                let score = |key: &Vec<f32>| dot(&q, &key[first..][..d]) / (d as f64).sqrt();
                let scores: Vec<f64> = keys.iter().map(score).collect();
                let weights = softmax(&scores);

                for i in 0..d {
                    let value = |(v, w): (&Vec<f32>, &f64)| w * f64::from(v[first + i]);
                    let sum: f64 = values.iter().zip(&weights).map(value).sum();
                    o[(t * shape.heads + h) * d + i] = sum as f32 * sigmoid(gate[i]);
                }
            }
        }
    }

    fn selected_blocks(&mut self, selection: &Selection) -> Vec<Vec<u32>> {
        (0..selection.rows()).map(|row| selection.blocks(row)).collect()
    }

    fn export_qsa(&mut self, state: &QsaState, slot: usize) -> KvSlot {
        state.slot(slot).export()
    }

    fn export_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &QsaState,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        state.export_rows(shape, slot, rows)
    }

    fn import_qsa_rows(
        &mut self,
        shape: &QsaShape,
        state: &mut QsaState,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), Error> {
        state.import_rows(shape, slot, piece)
    }
}

/// Pooled key of the block whose raw keys start `raw`, at position `first`.
fn block_key(shape: &QsaShape, raw: &[f32], norm: &[f32], first: usize) -> Vec<f32> {
    let width = shape.index_dim;
    let mean = |i: usize| {
        let sum: f64 = (0..shape.block).map(|b| f64::from(raw[b * width + i])).sum();
        (sum / shape.block as f64) as f32
    };
    let mean: Vec<f32> = (0..width).map(mean).collect();
    let mut key = vec![0.0; width];
    rms_norm(&mean, norm, shape.eps, &mut key);
    Rope::new(shape.index_rope()).rotate(first, &mut key);
    key
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}
