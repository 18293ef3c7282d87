//! The hyper-parameters of a qwen4exp model: one plain struct per block family, read from the
//! metadata of a GGUF file by [`HyperParams::from_metadata`] (in `metadata.rs`).
//!
//! Every number in a [`HyperParams`] that came from a file is inside the limits named here, so
//! sizes derived from it cannot overflow and divisors are never zero.

use crate::sizes::MAX_NGRAM;

/// What a checkpoint's numbers are, independent of weight formats.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperParams {
    /// The decoder layers of the trunk, in order; the MTP block is not among them.
    pub layers: Vec<LayerKind>,
    /// Number of MTP blocks described by the file: 0 or 1.
    pub mtp_layers: usize,
    /// Width of one residual stream.
    pub embd: usize,
    /// Rows of the token embedding and of the head. 0 only while it is unknown: the metadata may
    /// be silent, and [`crate::Checkpoint::load`] then takes the rows of `token_embd`.
    pub vocab: usize,
    /// Context length the model was made for, in tokens.
    pub context: usize,
    /// Epsilon of every RMS norm.
    pub rms_eps: f32,
    /// Attention layers.
    pub attn: AttnParams,
    /// Block selection of sparse attention layers; all zero if no layer is sparse.
    pub indexer: IndexerParams,
    /// Gated DeltaNet layers.
    pub gdn: GdnParams,
    /// Mixture of experts, in every layer.
    pub moe: MoeParams,
    /// Hyper-connections.
    pub hc: HcParams,
    /// Hashed n-gram features, if the file describes any.
    pub ple: Option<PleParams>,
    /// Block size of the MTP block's attention in tokens; 0 is dense.
    pub mtp_block: usize,
    /// Sampling defaults, if the file names any.
    pub sampling: Option<SamplingDefaults>,
}

/// The token mixer of one decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Gated DeltaNet: a recurrent state of constant size.
    Gdn,
    /// Softmax attention with an output gate.
    Attention {
        /// Tokens per selected block (the compress ratio); 0 attends to every position.
        block: usize,
    },
}

/// Numbers of the attention layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttnParams {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a query, key or value head.
    pub head_dim: usize,
    /// Leading features of a head that are rotated; even.
    pub rope_dims: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Rotary pairs per position axis (time, height, width, unused); used for images only.
    pub rope_sections: [u32; 4],
}

/// Numbers of the block indexer of sparse attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexerParams {
    /// Query heads; there is one key head.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Most tokens that selected blocks may hold (the tail of an open block comes on top).
    pub budget: usize,
}

/// Numbers of the Gated DeltaNet layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GdnParams {
    /// Query and key heads; divides `value_heads`. Value head `j` uses key head `j % key_heads`.
    pub key_heads: usize,
    /// Value heads, one state each.
    pub value_heads: usize,
    /// Width of a key head and of a value head.
    pub head_dim: usize,
    /// Taps of the causal convolution.
    pub conv_kernel: usize,
}

/// Numbers of the mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoeParams {
    /// Routed experts.
    pub experts: usize,
    /// Experts used per token.
    pub used: usize,
    /// Inner width of a routed expert.
    pub expert_ff: usize,
    /// Inner width of the shared expert.
    pub shared_ff: usize,
}

/// Numbers of the hyper-connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HcParams {
    /// Residual streams.
    pub streams: usize,
    /// Rank of the mixer.
    pub rank: usize,
}

/// Numbers of the hashed n-gram features (per-layer embeddings, PLE).
///
/// Heads are ordered by n-gram size: the first `heads_per_ngram` hash bigrams, the next trigrams,
/// and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PleParams {
    /// 0-based layer that owns the features.
    pub layer: usize,
    /// Longest n-gram, in tokens: 3 means bigrams and trigrams. 2 to [`MAX_NGRAM`].
    pub ngram: usize,
    /// Hash heads per n-gram size.
    pub heads_per_ngram: usize,
    /// Taps of the causal convolution.
    pub conv_kernel: usize,
    /// Distance between taps in tokens.
    pub dilation: usize,
    /// Width of one row of the n-gram table.
    pub row_width: usize,
    /// Token that cuts the hashed history.
    pub eos: u32,
    /// Token id that stands for an image embedding in the hash.
    pub image: u32,
    /// One multiplier per history entry, the current token first; `ngram` of them.
    pub multipliers: Vec<u64>,
    /// First table row of each head.
    pub offsets: Vec<u64>,
    /// Rows of each head; none is zero.
    pub sizes: Vec<u64>,
}

/// Sampling values a file recommends; each may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SamplingDefaults {
    /// Temperature, zero or above.
    pub temp: Option<f32>,
    /// Candidates kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// Probability mass kept, 0 to 1.
    pub top_p: Option<f32>,
}

impl PleParams {
    /// Number of hash heads: `(ngram - 1) * heads_per_ngram`.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.sizes.len()
    }

    /// Width of a token's features: one table row per head, side by side.
    #[must_use]
    pub fn width(&self) -> usize {
        self.heads() * self.row_width
    }

    /// Rows that the table must have so that every hash is inside it.
    #[must_use]
    pub fn rows_needed(&self) -> u64 {
        let ends = self.offsets.iter().zip(&self.sizes).map(|(o, s)| o.saturating_add(*s));
        ends.max().unwrap_or(0)
    }

    /// Tokens of convolution history before the current one.
    #[must_use]
    pub fn conv_history(&self) -> usize {
        self.conv_kernel.saturating_sub(1) * self.dilation
    }
}

const _: () = assert!(MAX_NGRAM >= 3, "the released model hashes trigrams");
