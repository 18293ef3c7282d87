//! Limits on the numbers of a model file, and the sizes that follow from hyper-parameters:
//! projection widths and the bytes of a sequence's state.
//!
//! The limits are far above any known model. They are chosen so that the largest product formed
//! here stays below 2^63, which makes plain arithmetic safe after [`crate::HyperParams`] is read.

use crate::hparams::{HyperParams, LayerKind};

/// Most decoder layers, the MTP block included.
pub const MAX_LAYERS: usize = 1 << 12;
/// Widest residual stream, feed-forward layer or mixer rank.
pub const MAX_WIDTH: usize = 1 << 20;
/// Most heads of one kind.
pub const MAX_HEADS: usize = 1 << 12;
/// Widest head.
pub const MAX_HEAD_DIM: usize = 1 << 13;
/// Most routed experts.
pub const MAX_EXPERTS: usize = 1 << 16;
/// Most residual streams.
pub const MAX_STREAMS: usize = 1 << 6;
/// Most taps of a convolution.
pub const MAX_KERNEL: usize = 1 << 6;
/// Largest vocabulary.
pub const MAX_VOCAB: usize = 1 << 26;
/// Longest context: positions up to here are exact in the f32 of the rotary angles.
pub const MAX_CONTEXT: usize = 1 << 24;
/// Longest hashed n-gram.
pub const MAX_NGRAM: usize = 8;

const F32: u64 = 4;

impl HyperParams {
    /// Width of the residual: all streams side by side.
    #[must_use]
    pub fn stream_dim(&self) -> usize {
        self.hc.streams * self.embd
    }

    /// Width of all query heads of an attention layer, and of its output gate.
    #[must_use]
    pub fn attn_dim(&self) -> usize {
        self.attn.heads * self.attn.head_dim
    }

    /// Width of all key heads, and of all value heads, of an attention layer.
    #[must_use]
    pub fn kv_dim(&self) -> usize {
        self.attn.kv_heads * self.attn.head_dim
    }

    /// Width of all query heads of the indexer.
    #[must_use]
    pub fn index_dim(&self) -> usize {
        self.indexer.heads * self.indexer.head_dim
    }

    /// Width of all key heads of a Gated DeltaNet layer.
    #[must_use]
    pub fn gdn_key_dim(&self) -> usize {
        self.gdn.key_heads * self.gdn.head_dim
    }

    /// Width of all value heads of a Gated DeltaNet layer.
    #[must_use]
    pub fn gdn_value_dim(&self) -> usize {
        self.gdn.value_heads * self.gdn.head_dim
    }

    /// Channels of a Gated DeltaNet convolution: queries, keys, values.
    #[must_use]
    pub fn gdn_channels(&self) -> usize {
        2 * self.gdn_key_dim() + self.gdn_value_dim()
    }

    /// Trunk layers with a recurrent state.
    #[must_use]
    pub fn gdn_layers(&self) -> usize {
        self.layers.iter().filter(|kind| **kind == LayerKind::Gdn).count()
    }

    /// Trunk layers with a key and value cache.
    #[must_use]
    pub fn attn_layers(&self) -> usize {
        self.layers.len() - self.gdn_layers()
    }

    /// Trunk layers that select blocks.
    #[must_use]
    pub fn sparse_layers(&self) -> usize {
        self.layers
            .iter()
            .filter(|kind| matches!(kind, LayerKind::Attention { block } if *block > 0))
            .count()
    }

    /// Bytes of one sequence's delta-rule states in f32, `[layer][value head][key][value]`.
    #[must_use]
    pub fn gdn_state_bytes(&self) -> u64 {
        let head = (self.gdn.head_dim * self.gdn.head_dim) as u64;
        self.gdn_layers() as u64 * self.gdn.value_heads as u64 * head * F32
    }

    /// Bytes of one sequence's Gated DeltaNet convolution histories in f32.
    #[must_use]
    pub fn gdn_conv_bytes(&self) -> u64 {
        let history = self.gdn.conv_kernel.saturating_sub(1) as u64;
        self.gdn_layers() as u64 * self.gdn_channels() as u64 * history * F32
    }

    /// Bytes of one sequence's PLE convolution history in f32; 0 without PLE.
    #[must_use]
    pub fn ple_conv_bytes(&self) -> u64 {
        let history = self.ple.as_ref().map_or(0, |ple| ple.conv_history() as u64);
        self.stream_dim() as u64 * history * F32
    }

    /// Bytes of the wide streams of one token in f32, the MTP block's input.
    #[must_use]
    pub fn wide_bytes(&self) -> u64 {
        self.stream_dim() as u64 * F32
    }

    /// Bytes that a sequence needs in f32 for each row that may be on trial: before and after the
    /// convolution and the gates of every Gated DeltaNet layer, and the PLE convolution's input.
    #[must_use]
    pub fn deferred_row_bytes(&self) -> u64 {
        let gdn = 2 * (self.gdn_channels() + self.gdn.value_heads);
        let ple = if self.ple.is_some() { self.stream_dim() } else { 0 };
        (self.gdn_layers() as u64 * gdn as u64 + ple as u64) * F32
    }

    /// Bytes of one sequence's state that do not grow with its length.
    #[must_use]
    pub fn fixed_state_bytes(&self) -> u64 {
        let mtp = if self.mtp_layers > 0 { self.wide_bytes() } else { 0 };
        self.gdn_state_bytes() + self.gdn_conv_bytes() + self.ple_conv_bytes() + mtp
    }

    /// Bytes of the trunk's keys and values per token, at `element` bytes a number.
    #[must_use]
    pub fn kv_bytes_per_token(&self, element: usize) -> u64 {
        self.attn_layers() as u64 * 2 * self.kv_dim() as u64 * element as u64
    }

    /// Bytes of the trunk's raw indexer keys per token, at `element` bytes a number.
    #[must_use]
    pub fn index_key_bytes_per_token(&self, element: usize) -> u64 {
        self.sparse_layers() as u64 * self.indexer.head_dim as u64 * element as u64
    }

    /// Bytes of the MTP block's keys and values per token; 0 without the block.
    #[must_use]
    pub fn mtp_kv_bytes_per_token(&self, element: usize) -> u64 {
        self.mtp_layers as u64 * 2 * self.kv_dim() as u64 * element as u64
    }
}
