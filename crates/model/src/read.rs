//! From metadata to [`HyperParams`]: every key of a qwen4exp file, with its range, its relation
//! to other keys, and what its absence means.

use gguf::Metadata;

use crate::error::Error;
use crate::hparams::{
    AttnParams, GdnParams, HcParams, HyperParams, IndexerParams, LayerKind, MoeParams,
    SamplingDefaults,
};
use crate::keys::{Blocks, Keys, full, missing};
use crate::sizes::{
    MAX_CONTEXT, MAX_EXPERTS, MAX_HEAD_DIM, MAX_HEADS, MAX_KERNEL, MAX_LAYERS, MAX_STREAMS,
    MAX_VOCAB, MAX_WIDTH,
};

impl HyperParams {
    /// Reads the hyper-parameters of a file.
    ///
    /// `vocab` is 0 if the metadata does not give it; the size of the vocabulary is then that of
    /// the token embedding, and ids are checked against it by [`crate::Checkpoint::load`].
    ///
    /// # Errors
    /// [`Error::Architecture`] for a file of another architecture; [`Error::MissingKey`],
    /// [`Error::Value`], [`Error::Unsupported`] or [`Error::Gguf`] for the first key that is
    /// absent, out of range, not supported or of the wrong type.
    pub fn from_metadata(meta: &Metadata) -> Result<Self, Error> {
        let keys = Keys::new(meta)?;
        let blocks = read_blocks(&keys)?;
        let (layers, mtp_block) = read_layers(&keys, blocks)?;
        let mut attends: Vec<_> = layers.iter().map(|kind| *kind != LayerKind::Gdn).collect();
        attends.resize(blocks.all, true);
        let attn = read_attention(&keys, blocks, &attends)?;
        let hp = Self {
            indexer: read_indexer(&keys, &layers, mtp_block, &attn)?,
            mtp_layers: blocks.all - blocks.trunk,
            embd: keys.required("embedding_length", 1..=MAX_WIDTH)?,
            vocab: keys.optional("vocab_size", 1..=MAX_VOCAB)?.unwrap_or(0),
            context: keys.required("context_length", 1..=MAX_CONTEXT)?,
            rms_eps: keys.float("attention.layer_norm_rms_epsilon", f32::MIN_POSITIVE..=1.0)?,
            gdn: read_gdn(&keys)?,
            moe: read_moe(&keys, blocks)?,
            hc: HcParams {
                streams: keys.required("hyper_connection.count", 1..=MAX_STREAMS)?,
                rank: keys.required("hyper_connection.low_rank", 1..=MAX_WIDTH)?,
            },
            ple: crate::read_ple::read_ple(&keys, blocks)?,
            sampling: read_sampling(meta)?,
            layers,
            attn,
            mtp_block,
        };
        hp.check_ids()?;
        Ok(hp)
    }

    /// Checks the token ids among the parameters against the vocabulary, once it is known.
    pub(crate) fn check_ids(&self) -> Result<(), Error> {
        let Some(ple) = self.ple.as_ref().filter(|_| self.vocab > 0) else { return Ok(()) };
        for (key, id) in [("ple.eos_token_id", ple.eos), ("ple.image_token_id", ple.image)] {
            if id as usize >= self.vocab {
                let expected = format!("the vocabulary has {} tokens", self.vocab);
                return Err(Error::value(full(key), id, expected));
            }
        }
        Ok(())
    }
}

fn read_blocks(keys: &Keys<'_>) -> Result<Blocks, Error> {
    let all = keys.required("block_count", 1..=MAX_LAYERS)?;
    let mtp = keys.optional("nextn_predict_layers", 0..=MAX_LAYERS)?.unwrap_or(0);
    if mtp > 1 {
        return Err(Error::Unsupported {
            what: format!("a model with {mtp} MTP blocks (nextn_predict_layers)"),
            hint: "use a file with one MTP block, or with none".to_owned(),
        });
    }
    match all.checked_sub(mtp) {
        Some(trunk) if trunk > 0 => Ok(Blocks { all, trunk }),
        _ => Err(Error::value(
            full("block_count"),
            all,
            format!("{mtp} of them are MTP blocks, which leaves no layers"),
        )),
    }
}

/// The kind of each trunk layer, and the block size of the MTP block.
fn read_layers(keys: &Keys<'_>, blocks: Blocks) -> Result<(Vec<LayerKind>, usize), Error> {
    let ratios = keys.per_layer("attention.compress_ratios", blocks, 0..=MAX_CONTEXT)?;
    let recurrent = keys.per_layer("attention.recurrent_layers", blocks, 0..=1)?;
    let interval = keys.optional("full_attention_interval", 1..=MAX_LAYERS)?;
    let ratios = ratios.ok_or_else(|| missing("attention.compress_ratios"))?;
    let ratio = |n: usize| ratios.get(n).copied().flatten().unwrap_or(0);
    let is_recurrent = |n: usize| match (&recurrent, interval) {
        (Some(flags), _) => flags.get(n).copied().flatten() == Some(1),
        (None, Some(interval)) => !(n + 1).is_multiple_of(interval),
        (None, None) => ratio(n) == 0,
    };
    let kind = |n: usize| match is_recurrent(n) {
        true => LayerKind::Gdn,
        false => LayerKind::Attention { block: ratio(n) },
    };
    let mtp_block = if blocks.all > blocks.trunk { ratio(blocks.trunk) } else { 0 };
    Ok(((0..blocks.trunk).map(kind).collect(), mtp_block))
}

fn read_attention(keys: &Keys<'_>, blocks: Blocks, attends: &[bool]) -> Result<AttnParams, Error> {
    let heads = keys.uniform("attention.head_count", blocks, attends, 1..=MAX_HEADS)?;
    let kv_heads = keys.uniform("attention.head_count_kv", blocks, attends, 1..=MAX_HEADS)?;
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("attention.head_count_kv is {kv_heads}, which does not divide it");
        return Err(Error::value(full("attention.head_count"), heads, expected));
    }
    let head_dim = keys.required("attention.key_length", 1..=MAX_HEAD_DIM)?;
    let value_dim = keys.optional("attention.value_length", 1..=MAX_HEAD_DIM)?;
    if value_dim.is_some_and(|dim| dim != head_dim) {
        return Err(Error::Unsupported {
            what: format!("attention.value_length {value_dim:?} beside a key_length {head_dim}"),
            hint: "qwen4exp has keys and values of one width".to_owned(),
        });
    }
    let rope_dims = keys.required("rope.dimension_count", 2..=MAX_HEAD_DIM)?;
    check_rope("attention.key_length", rope_dims, head_dim)?;
    Ok(AttnParams {
        heads,
        kv_heads,
        head_dim,
        rope_dims,
        rope_base: keys.float("rope.freq_base", 1.0..=f32::MAX)?,
        rope_sections: read_sections(keys, rope_dims)?,
    })
}

/// Rotated features come in pairs and must fit into a head.
fn check_rope(head_key: &str, rope_dims: usize, head_dim: usize) -> Result<(), Error> {
    let key = full("rope.dimension_count");
    if !rope_dims.is_multiple_of(2) {
        return Err(Error::value(key, rope_dims, "features are rotated in pairs"));
    }
    if rope_dims > head_dim {
        let expected = format!("a head has {head_dim} features ({head_key})");
        return Err(Error::value(key, rope_dims, expected));
    }
    Ok(())
}

fn read_sections(keys: &Keys<'_>, rope_dims: usize) -> Result<[u32; 4], Error> {
    let key = "rope.dimension_sections";
    let Some(items) = keys.integers(key)? else { return Ok([0; 4]) };
    let wrong = || {
        let expected = format!("must be 3 or 4 counts of together at most {}", rope_dims / 2);
        Error::value(full(key), format!("{:?}", &items[..items.len().min(8)]), expected)
    };
    if !(3..=4).contains(&items.len()) {
        return Err(wrong());
    }
    let mut sections = [0; 4];
    let mut pairs = rope_dims / 2;
    for (section, item) in sections.iter_mut().zip(&items) {
        *section = u32::try_from(*item).map_err(|_| wrong())?;
        pairs = pairs.checked_sub(*section as usize).ok_or_else(wrong)?;
    }
    Ok(sections)
}

fn read_indexer(
    keys: &Keys<'_>,
    layers: &[LayerKind],
    mtp_block: usize,
    attn: &AttnParams,
) -> Result<IndexerParams, Error> {
    let block = |kind: &LayerKind| match kind {
        LayerKind::Gdn => 0,
        LayerKind::Attention { block } => *block,
    };
    let largest = layers.iter().map(block).fold(mtp_block, usize::max);
    if largest == 0 && !keys.has("attention.indexer.head_count") {
        return Ok(IndexerParams::default());
    }
    let indexer = IndexerParams {
        heads: keys.required("attention.indexer.head_count", 1..=MAX_HEADS)?,
        head_dim: keys.required("attention.indexer.key_length", 1..=MAX_HEAD_DIM)?,
        budget: keys.required("attention.indexer.top_k", 1..=MAX_CONTEXT)?,
    };
    check_rope("attention.indexer.key_length", attn.rope_dims, indexer.head_dim)?;
    if largest > indexer.budget {
        let expected = format!("one block (attention.compress_ratios) holds {largest} tokens");
        return Err(Error::value(full("attention.indexer.top_k"), indexer.budget, expected));
    }
    Ok(indexer)
}

fn read_gdn(keys: &Keys<'_>) -> Result<GdnParams, Error> {
    let gdn = GdnParams {
        key_heads: keys.required("ssm.group_count", 1..=MAX_HEADS)?,
        value_heads: keys.required("ssm.time_step_rank", 1..=MAX_HEADS)?,
        head_dim: keys.required("ssm.state_size", 1..=MAX_HEAD_DIM)?,
        conv_kernel: keys.required("ssm.conv_kernel", 1..=MAX_KERNEL)?,
    };
    if !gdn.value_heads.is_multiple_of(gdn.key_heads) {
        let expected = format!("ssm.group_count is {}, which does not divide it", gdn.key_heads);
        return Err(Error::value(full("ssm.time_step_rank"), gdn.value_heads, expected));
    }
    let width = gdn.value_heads * gdn.head_dim;
    match keys.optional("ssm.inner_size", 0..=usize::MAX)? {
        Some(inner) if inner != width => {
            let expected = format!("time_step_rank * state_size is {width}");
            Err(Error::value(full("ssm.inner_size"), inner, expected))
        }
        _ => Ok(gdn),
    }
}

fn read_moe(keys: &Keys<'_>, blocks: Blocks) -> Result<MoeParams, Error> {
    let every = vec![true; blocks.all];
    let moe = MoeParams {
        experts: keys.required("expert_count", 1..=MAX_EXPERTS)?,
        used: keys.required("expert_used_count", 1..=MAX_EXPERTS)?,
        expert_ff: keys.uniform("expert_feed_forward_length", blocks, &every, 1..=MAX_WIDTH)?,
        shared_ff: keys.uniform(
            "expert_shared_feed_forward_length",
            blocks,
            &every,
            1..=MAX_WIDTH,
        )?,
    };
    if moe.used > moe.experts {
        let expected = format!("expert_count is only {}", moe.experts);
        return Err(Error::value(full("expert_used_count"), moe.used, expected));
    }
    Ok(moe)
}

fn read_sampling(meta: &Metadata) -> Result<Option<SamplingDefaults>, Error> {
    let float = |key: &str, most: f32| match meta.get_f32(key)? {
        Some(found) if !(0.0..=most).contains(&found) => {
            Err(Error::value(key, found, format!("must be from 0 to {most}")))
        }
        found => Ok(found),
    };
    // Some tools write -1 for "keep all".
    let clamp = |k: i64| u32::try_from(k.max(0)).unwrap_or(u32::MAX);
    let top_k = meta.get_i64("general.sampling.top_k")?.map(clamp);
    let sampling = SamplingDefaults {
        temp: float("general.sampling.temp", f32::MAX)?,
        top_k,
        top_p: float("general.sampling.top_p", 1.0)?,
    };
    Ok((sampling != SamplingDefaults::default()).then_some(sampling))
}
