//! What a window takes: the engine's own buffers to the value, and about what kernels work in on
//! processors. Other devices work in less or in what they have on chip.

use super::{product, sum};
use crate::EngineConfig;
use crate::mtp::kept_rows;
use crate::scratch;
use model::{HyperParams, LayerKind};
use std::thread::available_parallelism;

const F32: usize = size_of::<f32>();

/// Bytes of 256 activations in 8 bits, with their scales and sums.
const ACTIVATIONS: (usize, usize) = (256, 384);

/// Rows of a window whose attention a thread computes together.
const ATTENTION_ROWS: usize = 8;

/// Pairs whose results go to a device at once.
const SENT_PAIRS: usize = 2048;

/// Bytes that a pair of a row and an expert, an expert, and a row take in plans and selections.
const PLANNED: [usize; 3] = [24, 40, 64];

/// Bytes of all buffers of an engine of these sizes; `hp` says whether there is a drafting block.
pub(super) fn bytes(hp: &HyperParams, config: &EngineConfig) -> u64 {
    let drafts = hp.mtp_layers > 0;
    let kept = if drafts { kept_rows(config) } else { 0 };
    let rows = config.chunk.saturating_add(kept);
    // Streams, embeddings, and both side by side.
    let block = if drafts { product([rows, 3 * hp.stream_dim() + hp.embd, F32]) } else { 0 };
    let values = scratch::values(hp, rows);
    sum([values.saturating_mul(F32 as u64), block, results(hp, config), work(hp, config, rows)])
}

/// What the processors take of memory where experts are divided between them and a device: rows
/// that are read back and experts' activations and results, of all pairs of the longest window.
pub(super) fn divided(hp: &HyperParams, config: &EngineConfig) -> u64 {
    let kept = if hp.mtp_layers > 0 { kept_rows(config) } else { 0 };
    let rows = config.chunk.saturating_add(kept);
    let pairs = rows.saturating_mul(hp.moe.used);
    let results = product([pairs, hp.embd + hp.moe.expert_ff, F32]);
    // Rows lie where the device puts them, with room to spare, and where they are read.
    let read = product([rows, 3 * hp.embd, F32]);
    let sent = product([pairs.min(SENT_PAIRS), 2 * hp.embd, F32]);
    sum([results, read, sent, activations(hp, rows)])
}

/// Logits of the rows that are asked for when all slots generate, and the tokens.
fn results(hp: &HyperParams, config: &EngineConfig) -> u64 {
    let wanted = product([config.slots, config.deferred.max(1), hp.vocab, F32]);
    // Room for tokens doubles as they come.
    let tokens = product([config.slots, config.context, 2 * size_of::<u32>()]);
    let ngrams = hp.ple.as_ref().map_or(0, |ple| product([config.chunk, ple.heads(), 16]));
    sum([wanted, tokens, ngrams])
}

/// What kernels work in.
fn work(hp: &HyperParams, config: &EngineConfig, rows: usize) -> u64 {
    // Reading the streams: all of them normalised, their gates, and the low rank between.
    let streams = product([rows, 2 * hp.stream_dim() + hp.hc.rank, F32]);
    let [pair, expert, row] = PLANNED;
    let planned = sum([
        product([rows, hp.moe.used, pair]),
        product([hp.moe.experts, expert]),
        product([rows, row]),
        product([rows, hp.attn.rope_dims, 2 * F32]),
    ]);
    sum([streams, activations(hp, rows), planned, attention(hp, config)])
}

/// The widest activations that are brought to 8 bits.
fn activations(hp: &HyperParams, rows: usize) -> u64 {
    let (values, bytes) = ACTIVATIONS;
    let blocks = |rows: usize, width: usize| product([rows, width.div_ceil(values), bytes]);
    let (experts, streams) = (rows.saturating_mul(hp.moe.used), rows.saturating_mul(hp.hc.streams));
    let ngrams = hp.ple.as_ref().map_or(0, |ple| ple.width());
    let combined = if hp.mtp_layers > 0 { 2 * hp.embd } else { 0 };
    let wide = [hp.stream_dim(), hp.hc.rank, hp.gdn_value_dim(), hp.moe.shared_ff, ngrams];
    let attention = if hp.attn_layers() + hp.mtp_layers > 0 { hp.attn_dim() } else { 0 };
    let rowwise = wide.into_iter().chain([attention]).map(|width| blocks(rows, width));
    let others = [blocks(experts, hp.moe.expert_ff), blocks(streams, combined)];
    rowwise.chain(others).max().unwrap_or(0)
}

/// Queries and scores of the positions that each thread attends at once, and the positions.
fn attention(hp: &HyperParams, config: &EngineConfig) -> u64 {
    let drafting = (hp.mtp_layers > 0).then_some(LayerKind::Attention { block: hp.mtp_block });
    let kinds = hp.layers.iter().copied().chain(drafting);
    let positions = kinds.map(|kind| match kind {
        LayerKind::Gdn => 0,
        LayerKind::Attention { block: 0 } => config.context,
        LayerKind::Attention { block } => config.context.min(hp.indexer.budget + block),
    });
    let Some(most @ 1..) = positions.max() else { return 0 };
    let rows = ATTENTION_ROWS.min(config.chunk);
    let heads = hp.attn.heads / hp.attn.kv_heads.max(1);
    let of_row = (heads + 1).saturating_mul(most.saturating_add(hp.attn.head_dim));
    let threads = available_parallelism().map_or(1, usize::from);
    product([threads, rows, of_row, F32])
}
