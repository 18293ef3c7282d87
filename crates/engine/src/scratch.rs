//! Activation buffers of a window, allocated once for the longest one.

use crate::Error;
use crate::forecast::Forecast;
use kernels::Backend;
use model::HyperParams;

/// Rows whose logits are computed at once; more wanted rows go through in groups of this many.
pub(crate) const LOGIT_ROWS: usize = 32;

/// Buffers by the name of what they hold; T is the number of rows in the window.
pub(crate) struct Scratch<B: Backend> {
    /// Residual streams `[T, S, H]`.
    pub(crate) x: B::Buffer,
    pub(crate) layers: LayerScratch<B>,
    pub(crate) ple: Option<PleScratch<B>>,
    pub(crate) head: HeadScratch<B>,
}

/// Buffers of a decoder layer.
pub(crate) struct LayerScratch<B: Backend> {
    /// Input of a block `[T, H]`.
    pub(crate) u: B::Buffer,
    /// Write weights of the streams `[T, S]`.
    pub(crate) inject: B::Buffer,
    /// Output of a block `[T, H]`.
    pub(crate) y: B::Buffer,
    pub(crate) gdn: GdnScratch<B>,
    pub(crate) attention: AttentionScratch<B>,
    pub(crate) moe: MoeScratch<B>,
}

pub(crate) struct GdnScratch<B: Backend> {
    /// Before the convolution `[T, channels]`.
    pub(crate) m: B::Buffer,
    /// After it `[T, channels]`.
    pub(crate) qkv: B::Buffer,
    /// `[T, value_heads]`.
    pub(crate) alpha: B::Buffer,
    /// `[T, value_heads]`.
    pub(crate) beta: B::Buffer,
    /// Output gate `[T, value_dim]`.
    pub(crate) z: B::Buffer,
    /// `[T, value_dim]`.
    pub(crate) o: B::Buffer,
}

pub(crate) struct AttentionScratch<B: Backend> {
    /// Queries and gates `[T, heads * 2 * head_dim]`.
    pub(crate) q: B::Buffer,
    /// `[T, kv_dim]`.
    pub(crate) k: B::Buffer,
    /// `[T, kv_dim]`.
    pub(crate) v: B::Buffer,
    /// `[T, index_heads * index_dim]`.
    pub(crate) index_q: B::Buffer,
    /// `[T, index_dim]`.
    pub(crate) index_k: B::Buffer,
    /// `[T, heads * head_dim]`.
    pub(crate) o: B::Buffer,
    pub(crate) selection: B::Selection,
}

pub(crate) struct MoeScratch<B: Backend> {
    /// Router logits `[T, experts]`.
    pub(crate) router: B::Buffer,
    /// What the next layer's router is likely to say.
    pub(crate) forecast: Forecast<B>,
    pub(crate) plan: B::Plan,
    /// Which experts are in memory, for dials.
    pub(crate) held: Vec<bool>,
    /// `[T * used, F]`.
    pub(crate) act: B::Buffer,
    /// `[T * used, H]`.
    pub(crate) part: B::Buffer,
    /// `[T]`.
    pub(crate) shared_gate_inp: B::Buffer,
    /// `[T, F shared]`.
    pub(crate) shared_gate: B::Buffer,
    /// `[T, F shared]`.
    pub(crate) shared_up: B::Buffer,
    /// `[T, H]`.
    pub(crate) shared: B::Buffer,
}

pub(crate) struct PleScratch<B: Backend> {
    /// Table rows `[T, heads * row width]`.
    pub(crate) e: B::Buffer,
    /// `[T, S * H]`.
    pub(crate) key: B::Buffer,
    /// `[T, H]`.
    pub(crate) value: B::Buffer,
}

pub(crate) struct HeadScratch<B: Backend> {
    /// Kept rows of the streams `[LOGIT_ROWS, S, H]`.
    pub(crate) x: B::Buffer,
    /// `[LOGIT_ROWS, H]`.
    pub(crate) h: B::Buffer,
    /// `[LOGIT_ROWS, vocab]`.
    pub(crate) logits: B::Buffer,
}

impl<B: Backend> Scratch<B> {
    /// Buffers for windows of up to `rows` rows.
    pub(crate) fn new(backend: &mut B, hp: &HyperParams, rows: usize) -> Result<Self, Error> {
        let (h, s) = (hp.embd, hp.hc.streams);
        let mut buffer = |rows: usize, width: usize| backend.alloc(rows.saturating_mul(width));
        Ok(Self {
            x: buffer(rows, s * h)?,
            ple: match &hp.ple {
                Some(ple) => Some(PleScratch {
                    e: buffer(rows, ple.heads() * ple.row_width)?,
                    key: buffer(rows, s * h)?,
                    value: buffer(rows, h)?,
                }),
                None => None,
            },
            head: HeadScratch {
                x: buffer(LOGIT_ROWS, s * h)?,
                h: buffer(LOGIT_ROWS, h)?,
                logits: buffer(LOGIT_ROWS, hp.vocab)?,
            },
            layers: LayerScratch::new(backend, hp, rows)?,
        })
    }
}

impl<B: Backend> LayerScratch<B> {
    /// Buffers for windows of up to `rows` rows.
    pub(crate) fn new(backend: &mut B, hp: &HyperParams, rows: usize) -> Result<Self, Error> {
        let (h, s) = (hp.embd, hp.hc.streams);
        let moe = &hp.moe;
        let (selection, plan) = (backend.new_selection(), backend.new_plan());
        // Only layers that are there vouch for their sizes by the shapes of their weights: those of
        // a kind that the model has none of may be anything.
        let rows_in = |layers: usize| if layers > 0 { rows } else { 0 };
        let mtp = hp.mtp_layers;
        let (gdn_rows, attn_rows) = (rows_in(hp.gdn_layers()), rows_in(hp.attn_layers() + mtp));
        let index_rows = rows_in(hp.sparse_layers() + mtp * usize::from(hp.mtp_block > 0));
        let mut buffer = |rows: usize, width: usize| backend.alloc(rows.saturating_mul(width));
        Ok(Self {
            u: buffer(rows, h)?,
            inject: buffer(rows, s)?,
            y: buffer(rows, h)?,
            gdn: GdnScratch {
                m: buffer(gdn_rows, hp.gdn_channels())?,
                qkv: buffer(gdn_rows, hp.gdn_channels())?,
                alpha: buffer(gdn_rows, hp.gdn.value_heads)?,
                beta: buffer(gdn_rows, hp.gdn.value_heads)?,
                z: buffer(gdn_rows, hp.gdn_value_dim())?,
                o: buffer(gdn_rows, hp.gdn_value_dim())?,
            },
            attention: AttentionScratch {
                q: buffer(attn_rows, 2 * hp.attn_dim())?,
                k: buffer(attn_rows, hp.kv_dim())?,
                v: buffer(attn_rows, hp.kv_dim())?,
                index_q: buffer(index_rows, hp.index_dim())?,
                index_k: buffer(index_rows, hp.indexer.head_dim)?,
                o: buffer(attn_rows, hp.attn_dim())?,
                selection,
            },
            moe: MoeScratch {
                router: buffer(rows, moe.experts)?,
                forecast: Forecast::new(buffer(rows, moe.experts)?),
                plan,
                held: Vec::new(),
                act: buffer(rows, moe.used * moe.expert_ff)?,
                part: buffer(rows, moe.used * h)?,
                shared_gate_inp: buffer(rows, 1)?,
                shared_gate: buffer(rows, moe.shared_ff)?,
                shared_up: buffer(rows, moe.shared_ff)?,
                shared: buffer(rows, h)?,
            },
        })
    }
}

/// Values of all buffers that [`Scratch::new`] makes.
pub(crate) fn values(hp: &HyperParams, rows: usize) -> u64 {
    let (h, wide, moe) = (hp.embd, hp.hc.streams * hp.embd, &hp.moe);
    let gdn = 2 * (hp.gdn_channels() + hp.gdn.value_heads + hp.gdn_value_dim());
    let attention = 3 * hp.attn_dim() + 2 * hp.kv_dim();
    let index = hp.index_dim() + hp.indexer.head_dim;
    let sparse_block = hp.mtp_layers * usize::from(hp.mtp_block > 0);
    let experts = moe.experts + moe.used * (moe.expert_ff + h) + 1 + 2 * moe.shared_ff + h;
    let ngrams = hp.ple.as_ref().map_or(0, |ple| ple.width() + wide + h);
    let widths = [
        (1, wide + 2 * h + hp.hc.streams),
        (hp.gdn_layers(), gdn),
        (hp.attn_layers() + hp.mtp_layers, attention),
        (hp.sparse_layers() + sparse_block, index),
        (1, experts),
        (1, ngrams),
    ];
    let there = widths.into_iter().filter(|(layers, _)| *layers > 0);
    let of_rows = there.map(|(_, width)| (rows as u64).saturating_mul(width as u64));
    let head = (LOGIT_ROWS * (wide + h + hp.vocab)) as u64;
    of_rows.fold(head, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::reference::Reference;
    use model::{Checkpoint, LayerKind};

    fn hyper_params() -> HyperParams {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/qwen4exp");
        let file = gguf::Gguf::open(format!("{fixtures}/tiny-f32.gguf")).unwrap();
        Checkpoint::load(&file).unwrap().hp
    }

    /// Values of all buffers that are there.
    fn made(scratch: &Scratch<Reference>) -> usize {
        let Scratch { x, layers, ple, head } = scratch;
        let LayerScratch { u, inject, y, gdn, attention, moe } = layers;
        let GdnScratch { m, qkv, alpha, beta, z, o } = gdn;
        let mut all = vec![x, u, inject, y, m, qkv, alpha, beta, z, o];
        let AttentionScratch { q, k, v, index_q, index_k, o, selection: _ } = attention;
        all.extend([q, k, v, index_q, index_k, o]);
        let MoeScratch { router, plan: _, act, part, shared_gate_inp, .. } = moe;
        all.extend([router, act, part, shared_gate_inp]);
        all.extend([&moe.shared_gate, &moe.shared_up, &moe.shared]);
        if let Some(PleScratch { e, key, value }) = ple {
            all.extend([e, key, value]);
        }
        let HeadScratch { x, h, logits } = head;
        all.extend([x, h, logits]);
        all.iter().map(|buffer| buffer.len()).sum()
    }

    #[test]
    fn the_values_are_counted_without_making_them() {
        let whole = hyper_params();
        let gdn_only = HyperParams { layers: vec![LayerKind::Gdn; 3], ..whole.clone() };
        let dense = vec![LayerKind::Attention { block: 0 }; 2];
        let dense = HyperParams { layers: dense, ple: None, ..whole.clone() };
        let drafting = HyperParams { mtp_layers: 1, mtp_block: 4, ..gdn_only.clone() };
        let dense_drafting = HyperParams { mtp_layers: 1, mtp_block: 0, ..gdn_only.clone() };
        for hp in [whole, gdn_only, dense, drafting, dense_drafting] {
            for rows in [1, 7, 64] {
                let scratch = Scratch::new(&mut Reference, &hp, rows).unwrap();
                assert_eq!(values(&hp, rows), made(&scratch) as u64, "{rows} rows");
            }
        }
        assert_eq!(values(&hyper_params(), usize::MAX), u64::MAX);
    }

    #[test]
    fn fault_136_sizes_of_absent_layers_take_no_memory() {
        let mut hp = hyper_params();
        (hp.attn.heads, hp.attn.kv_heads, hp.attn.head_dim) = (4096, 4096, 8192);
        (hp.indexer.heads, hp.indexer.head_dim) = (4096, 8192);
        hp.layers.fill(LayerKind::Gdn);
        let scratch = Scratch::new(&mut Reference, &hp, 256).unwrap();
        assert!(
            scratch.layers.attention.q.is_empty() && scratch.layers.attention.index_q.is_empty()
        );

        let mut hp = hyper_params();
        (hp.gdn.key_heads, hp.gdn.value_heads, hp.gdn.head_dim) = (4096, 4096, 8192);
        (hp.indexer.heads, hp.indexer.head_dim) = (4096, 8192);
        hp.layers.fill(LayerKind::Attention { block: 0 });
        let scratch = Scratch::new(&mut Reference, &hp, 256).unwrap();
        assert!(scratch.layers.gdn.m.is_empty() && scratch.layers.attention.index_q.is_empty());
        assert!(!scratch.layers.attention.q.is_empty());
    }

    #[test]
    fn a_window_beyond_any_memory_is_an_error() {
        for rows in [usize::MAX, usize::MAX / 4, 1 << 60] {
            let result = Scratch::new(&mut Reference, &hyper_params(), rows);
            let is_out_of_memory =
                matches!(result, Err(Error::Kernel(kernels::Error::OutOfMemory { .. })));
            assert!(is_out_of_memory, "{rows} rows");
        }
    }
}
