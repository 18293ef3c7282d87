//! Activation buffers of a window, allocated once for the longest one.

use crate::Error;
use kernels::Backend;
use model::HyperParams;

/// Rows whose logits are computed at once; more wanted rows go through in groups of this many.
pub(crate) const LOGIT_ROWS: usize = 32;

/// Buffers by the name of what they hold; T is the number of rows in the window.
pub(crate) struct Scratch<B: Backend> {
    /// Residual streams `[T, S, H]`.
    pub(crate) x: B::Buffer,
    /// Input of a block `[T, H]`.
    pub(crate) u: B::Buffer,
    /// Write weights of the streams `[T, S]`.
    pub(crate) inject: B::Buffer,
    /// Output of a block `[T, H]`.
    pub(crate) y: B::Buffer,
    pub(crate) gdn: GdnScratch<B>,
    pub(crate) attention: AttentionScratch<B>,
    pub(crate) moe: MoeScratch<B>,
    pub(crate) ple: Option<PleScratch<B>>,
    pub(crate) head: HeadScratch<B>,
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
    pub(crate) plan: B::Plan,
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
        let (gdn, attn, index, moe) = (&hp.gdn, &hp.attn, &hp.indexer, &hp.moe);
        let key_dim = gdn.key_heads * gdn.head_dim;
        let value_dim = gdn.value_heads * gdn.head_dim;
        let (selection, plan) = (backend.new_selection(), backend.new_plan());
        let mut rows_of = |n: usize| backend.alloc(rows * n);
        Ok(Self {
            x: rows_of(s * h)?,
            u: rows_of(h)?,
            inject: rows_of(s)?,
            y: rows_of(h)?,
            gdn: GdnScratch {
                m: rows_of(2 * key_dim + value_dim)?,
                qkv: rows_of(2 * key_dim + value_dim)?,
                alpha: rows_of(gdn.value_heads)?,
                beta: rows_of(gdn.value_heads)?,
                z: rows_of(value_dim)?,
                o: rows_of(value_dim)?,
            },
            attention: AttentionScratch {
                q: rows_of(2 * attn.heads * attn.head_dim)?,
                k: rows_of(attn.kv_heads * attn.head_dim)?,
                v: rows_of(attn.kv_heads * attn.head_dim)?,
                index_q: rows_of(index.heads * index.head_dim)?,
                index_k: rows_of(index.head_dim)?,
                o: rows_of(attn.heads * attn.head_dim)?,
                selection,
            },
            moe: MoeScratch {
                router: rows_of(moe.experts)?,
                plan,
                act: rows_of(moe.used * moe.expert_ff)?,
                part: rows_of(moe.used * h)?,
                shared_gate_inp: rows_of(1)?,
                shared_gate: rows_of(moe.shared_ff)?,
                shared_up: rows_of(moe.shared_ff)?,
                shared: rows_of(h)?,
            },
            ple: match &hp.ple {
                Some(ple) => Some(PleScratch {
                    e: rows_of(ple.heads() * ple.row_width)?,
                    key: rows_of(s * h)?,
                    value: rows_of(h)?,
                }),
                None => None,
            },
            head: HeadScratch {
                x: backend.alloc(LOGIT_ROWS * s * h)?,
                h: backend.alloc(LOGIT_ROWS * h)?,
                logits: backend.alloc(LOGIT_ROWS * hp.vocab)?,
            },
        })
    }
}
