//! Indexed sparse attention: only selected rows of the cache are read.

use super::attend::{self, Attention, Tile};
use super::spread::part;
use crate::device::{Cpu, room};
use crate::share::Shared;
use crate::simd::elementwise::{AddRelu, ScaleOld};
use crate::simd::{Cached, HEADS, Kernels, Scores};
use kernels::host::{KvSlot, QsaState, Selection};
use kernels::qsa::{AttendQuery, IndexQuery};
use kernels::rope;
use kernels::{Error, KvType, Qsa, QsaKeys, QsaShape, Window};
use std::cell::RefCell;
use std::ops::Range;

/// Blocks scored per task.
const BLOCKS: usize = 512;

thread_local! {
    /// Scores per index head of the running task.
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
        let angles = self.work.angles.of(shape.rope(), window);
        for run in window.runs() {
            let kv = state.extend(shape, run);
            for t in run.rows() {
                for head in keys.k[t * kv_dim..][..kv_dim].chunks_exact(dim) {
                    let key = room(&mut self.work.a, dim);
                    simd.rms_norm(head, keys.k_norm, shape.eps, key);
                    rope::apply(&angles[t * pairs..][..pairs], key);
                    kv.k.append(key);
                }
                kv.v.append(&keys.v[t * kv_dim..][..kv_dim]);
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
                    angles.rotate(shape.index_rope(), first, key);
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
        let (query_len, pairs) = (shape.index_heads * width, shape.index_rope().dims / 2);
        let angles = self.work.index_angles.of(shape.index_rope(), window);
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
            self.pool.run(blocks.div_ceil(BLOCKS), &|task| {
                let own = part(blocks, BLOCKS, task);
                let keys = &keys[own.start * width..own.end * width];
                // SAFETY: a block belongs to one task.
                score_blocks(&simd, heads, (keys, width), unsafe { shared.slice(own) });
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
        let angles = self.work.angles.of(shape.rope(), window);
        let attention = Attention { shape, query: &query, state, angles, simd: self.simd };
        let out = Shared::new(&mut o[..window.rows() * shape.query_dim()]);
        let shared_by = shape.heads / shape.kv_heads;
        for run in window.runs() {
            let tiles = run.len.div_ceil(attend::ROWS) * shape.kv_heads;
            // Heads stay together unless threads would have nothing to do.
            let size = shared_by.div_ceil(self.pool.threads().div_ceil(tiles));
            let size = size.next_multiple_of(HEADS);
            let parts = shared_by.div_ceil(size);
            self.pool.run(tiles * parts, &|task| {
                let (rows, kv_head) =
                    (task / parts / shape.kv_heads, task / parts % shape.kv_heads);
                let (rows, own) =
                    (part(run.len, attend::ROWS, rows), part(shared_by, size, task % parts));
                let tile = Tile {
                    rows: run.first_row + rows.start..run.first_row + rows.end,
                    slot: run.slot,
                    kv_head,
                    heads: kv_head * shared_by + own.start..kv_head * shared_by + own.end,
                };
                // SAFETY: a head of a row belongs to one task.
                unsafe { attention.run(&tile, &out) };
            });
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

/// `scores[b] = sum over h of max(0, head h . key b) / sqrt(width)`.
fn score_blocks(simd: &Kernels, heads: &[f32], (keys, width): (&[f32], usize), scores: &mut [f32]) {
    const NUMBERS: [u32; BLOCKS] = {
        let mut numbers = [0; BLOCKS];
        let mut i = 0;
        while i < BLOCKS {
            numbers[i] = i as u32;
            i += 1;
        }
        numbers
    };
    let count = scores.len();
    scores.fill(0.0);
    SCORES.with_borrow_mut(|products| {
        for q in heads.chunks(HEADS * width) {
            let products = room(products, q.len() / width * count);
            simd.run(Scores {
                q,
                keys: Cached {
                    rows: bytemuck::cast_slice(keys),
                    row_bytes: KvType::F32.bytes(width),
                    first_byte: 0,
                    ty: KvType::F32,
                    dim: width,
                    positions: &NUMBERS[..count],
                },
                scale: 1.0,
                scores: products,
                scores_stride: count,
            });
            for products in products.chunks_exact(count) {
                simd.map(AddRelu {}, [products], scores);
            }
        }
    });
    simd.map(ScaleOld { scale: 1.0 / (width as f32).sqrt() }, [], scores);
}

/// Mean of the first `count` rows of `raw`, each as long as `mean`.
fn pool_keys(simd: &Kernels, raw: &[f32], count: usize, mean: &mut [f32]) {
    mean.fill(0.0);
    for key in raw.chunks_exact(mean.len()).take(count) {
        simd.axpy(1.0 / count as f32, key, mean);
    }
}
