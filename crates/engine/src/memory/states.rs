//! What the states of sequences take, as [`crate::Engine`] makes them: all slots, and caches that
//! are full.

use super::product;
use crate::EngineConfig;
use crate::mtp::kept_rows;
use crate::shapes::{gdn_shape, ple_shape, qsa_shape};
use crate::speculation::MAX_DEPTH;
use kernels::rope::RopeScaling;
use kernels::{GdnShape, QsaShape};
use model::{Attention, Checkpoint, HyperParams, Layer, Mixer};

const F32: usize = size_of::<f32>();

/// Bytes of the states of all slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateBytes {
    /// Delta-rule states, convolution histories, and rows set aside: the same for any text.
    pub recurrent: u64,
    /// Keys and values of a full context.
    pub keys_values: u64,
    /// Index keys of a full context, raw and pooled.
    pub index_keys: u64,
    /// Of the drafting block: its cache, and streams that it keeps.
    pub drafting: u64,
}

impl StateBytes {
    /// Of an engine of these sizes; `hp` says whether the drafting block is loaded.
    pub(super) fn of(checkpoint: &Checkpoint, hp: &HyperParams, config: &EngineConfig) -> Self {
        let mut bytes = Self::default();
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        for layer in &checkpoint.layers {
            match &layer.mixer {
                Mixer::Gdn(_) => {
                    add(&mut bytes.recurrent, recurrent(&gdn_shape(hp), config.deferred));
                }
                Mixer::Attention(attention) => {
                    let cache = Cache::of(hp, layer, attention, config);
                    add(&mut bytes.keys_values, cache.keys_values(config.context));
                    add(&mut bytes.index_keys, cache.index_keys(config.context));
                }
            }
            if let (Some(_), Some(params)) = (&layer.ple, &hp.ple) {
                let shape = ple_shape(hp, params);
                let rows = shape.history() + config.deferred;
                add(&mut bytes.recurrent, product([rows, shape.channels(), F32]));
            }
        }
        if let Some(block) = checkpoint.mtp.as_ref().filter(|_| hp.mtp_layers > 0) {
            bytes.drafting = drafting(hp, &block.layer, config);
        }
        bytes.times(config.slots as u64)
    }

    /// All of it.
    pub fn all(&self) -> u64 {
        super::sum([self.recurrent, self.keys_values, self.index_keys, self.drafting])
    }

    fn times(self, slots: u64) -> Self {
        Self {
            recurrent: self.recurrent.saturating_mul(slots),
            keys_values: self.keys_values.saturating_mul(slots),
            index_keys: self.index_keys.saturating_mul(slots),
            drafting: self.drafting.saturating_mul(slots),
        }
    }
}

/// Of a recurrent layer: the state, and of each row set aside what comes before and after the
/// convolution, and the gates.
fn recurrent(shape: &GdnShape, deferred: usize) -> u64 {
    let aside = product([deferred, 2 * (shape.channels() + shape.value_heads), F32]);
    product([shape.state_len() + shape.conv_len(), F32]).saturating_add(aside)
}

/// Of the drafting block: rows of drafts come behind those of the sequence.
fn drafting(hp: &HyperParams, layer: &Layer, config: &EngineConfig) -> u64 {
    let Mixer::Attention(attention) = &layer.mixer else { return 0 };
    let cache = Cache::of(hp, layer, attention, config);
    let rows = config.context.saturating_add(MAX_DEPTH);
    // The streams of the last draft are one row more.
    let streams = product([kept_rows(config) + 1, hp.stream_dim(), F32]);
    super::sum([cache.keys_values(rows), cache.index_keys(rows), streams])
}

/// What the cache of an attention layer holds of a token.
struct Cache {
    /// Bytes of a key and a value.
    pair: usize,
    shape: QsaShape,
}

impl Cache {
    fn of(hp: &HyperParams, layer: &Layer, attention: &Attention, config: &EngineConfig) -> Self {
        let Attention { index_q, index_k, index_q_norm, index_k_norm, .. } = attention;
        let indexer = [index_q, index_k, index_q_norm, index_k_norm];
        let shape = qsa_shape(hp, layer.kind, RopeScaling::None);
        // A layer whose file left the indexer out attends everything.
        let block = if indexer.iter().all(|tensor| tensor.is_some()) { shape.block } else { 0 };
        let pair = 2 * config.kv.bytes(shape.kv_dim());
        Self { pair, shape: QsaShape { block, ..shape } }
    }

    fn keys_values(&self, rows: usize) -> u64 {
        product([rows, self.pair])
    }

    fn index_keys(&self, rows: usize) -> u64 {
        let Some(blocks) = rows.checked_div(self.shape.block) else { return 0 };
        product([rows.saturating_add(blocks), self.shape.index_dim, F32])
    }
}
