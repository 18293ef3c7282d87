//! From `config.json` to the metadata of a model file.

use std::path::Path;

use gguf::{Array, Metadata};
use model::{HashConstants, HashSeed};
use serde_json::{Value, json};

use super::Error;
use super::json::{self as file, Object};

/// Seed of the n-gram hash where the configuration names none.
const SEED: u32 = 1234;
const MODEL_TYPES: [&str; 3] = ["qwen4_exp", "qwen4_exp_text", "qwen4exp"];

/// The configuration of a model's text part.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) text: Object,
    whole: Object,
    /// From `generation_config.json`; empty without it.
    generation: Object,
}

impl Config {
    /// Reads the configuration of a folder.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Error::Malformed`], also for a model of another kind.
    pub(crate) fn read(folder: &Path) -> Result<Config, Error> {
        let path = folder.join("config.json");
        let whole = Object { map: file::read(&path)?, path };
        let text = whole.object_if_there("text_config")?.unwrap_or_else(|| whole.clone());
        let kind = text.get("model_type").and_then(Value::as_str);
        if !kind.is_some_and(|kind| MODEL_TYPES.contains(&kind)) {
            return Err(text.wrong("model_type", "only qwen4_exp models can be converted"));
        }
        let path = folder.join("generation_config.json");
        let generation = Object { map: file::read_if_there(&path)?.unwrap_or_default(), path };
        let config = Config { text, whole, generation };
        config.check()?;
        Ok(config)
    }

    /// Refuses what no file of this architecture can say.
    fn check(&self) -> Result<(), Error> {
        let text = &self.text;
        text.only("hidden_act", &json!("silu"))?;
        text.only("output_gate_type", &json!("sigmoid"))?;
        text.only("attention_bias", &json!(false))?;
        text.only("norm_topk_prob", &json!(true))?;
        text.only("indexer_kv_heads", &json!(1))?;
        let widths = [text.number("linear_key_head_dim")?, text.number("linear_value_head_dim")?];
        if widths[0] != widths[1] {
            let key = "linear_value_head_dim";
            return Err(text.wrong(key, "it must be that of linear_key_head_dim"));
        }
        self.rope()?.only("rope_type", &json!("default"))
    }

    fn rope(&self) -> Result<Object, Error> {
        let nested = self.text.object_if_there("rope_parameters")?;
        Ok(nested.unwrap_or_else(|| self.text.clone()))
    }

    /// Whether the head has the weights of the embedding.
    pub(crate) fn is_tied(&self) -> bool {
        self.text.get("tie_word_embeddings") == Some(&Value::Bool(true))
    }

    /// Whether the model was made with a drafting block.
    pub(crate) fn has_mtp(&self) -> Result<bool, Error> {
        Ok(self.text.number_if_there("mtp_num_hidden_layers")?.is_some_and(|layers| layers > 0))
    }

    /// Whether each trunk layer attends, rather than being recurrent.
    fn attends(&self) -> Result<Vec<bool>, Error> {
        let layers = self.text.number("num_hidden_layers")? as usize;
        let expected = "it should have linear_attention, full_attention or indexed_attention for \
                        each layer";
        let Some(kinds) = self.text.get("layer_types") else {
            let interval = self.text.number("full_attention_interval")?.max(1) as usize;
            if layers > model::sizes::MAX_LAYERS {
                return Err(self.text.wrong("num_hidden_layers", "no model has so many"));
            }
            return Ok((1..=layers).map(|n| n.is_multiple_of(interval)).collect());
        };
        let attends = |kind: &Value| match kind.as_str() {
            Some("linear_attention") => Some(false),
            Some("full_attention" | "indexed_attention") => Some(true),
            _ => None,
        };
        let kinds = kinds.as_array().filter(|kinds| kinds.len() == layers);
        let kinds: Option<Vec<bool>> = kinds.and_then(|all| all.iter().map(attends).collect());
        kinds.ok_or_else(|| self.text.wrong("layer_types", expected))
    }

    /// The model's numbers as a file holds them. `hash` are the constants that the checkpoint
    /// carries, if it does.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a key that is missing or of the wrong kind.
    pub(crate) fn metadata(
        &self,
        name: &str,
        mtp: usize,
        hash: Option<HashConstants>,
    ) -> Result<Metadata, Error> {
        let mut meta = Metadata::new();
        meta.insert("general.architecture", "qwen4exp");
        meta.insert("general.type", "model");
        meta.insert("general.name", name);
        self.add_sampling(&mut meta)?;
        self.add_layers(&mut meta, mtp)?;
        self.add_sizes(&mut meta)?;
        self.add_rope(&mut meta)?;
        self.add_ngrams(&mut meta, hash)?;
        Ok(meta)
    }

    fn add_sampling(&self, meta: &mut Metadata) -> Result<(), Error> {
        for (ours, theirs) in [("temp", "temperature"), ("top_p", "top_p")] {
            if let Some(value) = self.generation.float_if_there(theirs)? {
                meta.insert(format!("general.sampling.{ours}"), value as f32);
            }
        }
        if let Some(k) = self.generation.number_if_there("top_k")? {
            meta.insert("general.sampling.top_k", i32::try_from(k).unwrap_or(i32::MAX));
        }
        Ok(())
    }

    fn add_layers(&self, meta: &mut Metadata, mtp: usize) -> Result<(), Error> {
        let attends = self.attends()?;
        let blocks = attends.len() + mtp;
        meta.insert(key("block_count"), blocks as u32);
        if mtp > 0 {
            meta.insert(key("nextn_predict_layers"), mtp as u32);
        }
        let first = attends.iter().position(|attends| *attends);
        let interval = first.map_or(attends.len() + 1, |first| first + 1);
        let regular = |(n, attends): (usize, &bool)| (n + 1).is_multiple_of(interval) == *attends;
        if attends.iter().enumerate().all(regular) {
            meta.insert(key("full_attention_interval"), interval as u32);
        } else {
            let recurrent = attends.iter().map(|attends| i32::from(!attends));
            let recurrent = recurrent.chain(std::iter::repeat_n(0, mtp)).collect();
            meta.insert(key("attention.recurrent_layers"), Array::I32(recurrent));
        }
        // The drafting block has the trunk's ratio: a 0 makes some engines stop.
        let ratio = i32::try_from(self.text.number("indexer_compress_ratio")?).unwrap_or(i32::MAX);
        let ratios = attends.iter().map(|attends| if *attends { ratio } else { 0 });
        let ratios = ratios.chain(std::iter::repeat_n(ratio, mtp)).collect();
        meta.insert(key("attention.compress_ratios"), Array::I32(ratios));
        Ok(())
    }

    fn add_sizes(&self, meta: &mut Metadata) -> Result<(), Error> {
        let text = &self.text;
        for (ours, theirs) in NUMBERS {
            meta.insert(key(ours), text.number(theirs)?);
        }
        let heads = text.number("linear_num_value_heads")?;
        let width = text.number("linear_value_head_dim")?;
        meta.insert(key("ssm.inner_size"), heads.saturating_mul(width));
        let eps = text.float_if_there("rms_norm_eps")?;
        let eps = eps.ok_or_else(|| text.wrong("rms_norm_eps", "a number is needed"))?;
        meta.insert(key("attention.layer_norm_rms_epsilon"), eps as f32);
        Ok(())
    }

    fn add_rope(&self, meta: &mut Metadata) -> Result<(), Error> {
        let rope = self.rope()?;
        let theta = rope.float_if_there("rope_theta")?;
        let theta = theta.ok_or_else(|| rope.wrong("rope_theta", "a number is needed"))?;
        let share = rope.float_if_there("partial_rotary_factor")?.unwrap_or(1.0);
        // Too large or negative a share gives a number that the check of the metadata refuses.
        let rotated = f64::from(self.text.number("head_dim")?) * share;
        meta.insert(key("rope.dimension_count"), rotated as u32);
        meta.insert(key("rope.freq_base"), theta as f32);
        if let Some(mut sections) = rope.numbers_if_there("mrope_section")? {
            sections.resize(sections.len().max(4), 0);
            let signed = |pairs: u32| i32::try_from(pairs).unwrap_or(i32::MAX);
            let sections = sections.into_iter().map(signed).collect();
            meta.insert(key("rope.dimension_sections"), Array::I32(sections));
        }
        Ok(())
    }

    /// The layer that owns the n-gram features, from 0; None without any.
    pub(crate) fn ngram_layer(&self) -> Result<Option<u32>, Error> {
        let Some(layers) = self.text.numbers_if_there("ple_layer_ids")? else { return Ok(None) };
        match layers.as_slice() {
            [] => Ok(None),
            [layer] if *layer > 0 => Ok(Some(layer - 1)),
            _ => Err(self.text.wrong("ple_layer_ids", "one layer, counted from 1, is supported")),
        }
    }

    /// The length of the longest n-gram and the number of hash heads.
    pub(crate) fn ngram_heads(&self) -> Result<(u32, u32), Error> {
        let longest = self.text.number("ngram_size")?;
        let heads = longest.saturating_sub(1).saturating_mul(self.text.number("heads_per_ngram")?);
        if heads == 0 || heads > 1 << 16 {
            return Err(self.text.wrong("ngram_size", "there must be 1 to 65,536 hash heads"));
        }
        Ok((longest, heads))
    }

    fn add_ngrams(&self, meta: &mut Metadata, hash: Option<HashConstants>) -> Result<(), Error> {
        let Some(layer) = self.ngram_layer()? else { return Ok(()) };
        let text = &self.text;
        let ((longest, heads), width) = (self.ngram_heads()?, text.number("ple_embed_dim")?);
        if !width.is_multiple_of(heads) {
            let expected = format!("it should be a multiple of the {heads} hash heads");
            return Err(text.wrong("ple_embed_dim", &expected));
        }
        meta.insert(key("ple.layers"), Array::I32(vec![i32::try_from(layer).unwrap_or(i32::MAX)]));
        meta.insert(key("ple.ngram_size"), longest);
        meta.insert(key("ple.heads_per_ngram"), text.number("heads_per_ngram")?);
        meta.insert(key("ple.conv_kernel"), text.number("ple_conv_kernel_size")?);
        meta.insert(key("embedding_length_per_layer_input"), width / heads);
        let eos = text.numbers_if_there("eos_token_id")?;
        let eos = eos.and_then(|ids| ids.first().copied());
        let eos = eos.ok_or_else(|| text.wrong("eos_token_id", "it ends the hashed history"))?;
        meta.insert(key("ple.eos_token_id"), eos);
        if let Some(image) = self.whole.number_if_there("image_token_id")? {
            meta.insert(key("ple.image_token_id"), image);
        }
        let hash = match hash {
            Some(hash) => hash,
            None => self.derive_hash()?,
        };
        meta.insert(key("ple.layer_multipliers"), Array::U64(hash.multipliers));
        meta.insert(key("ple.head_offsets"), Array::U64(hash.offsets));
        meta.insert(key("ple.head_vocab_sizes"), Array::U64(hash.sizes));
        Ok(())
    }

    fn derive_hash(&self) -> Result<HashConstants, Error> {
        let text = &self.text;
        let seed = HashSeed {
            seed: text.number_if_there("seed")?.unwrap_or(SEED).into(),
            vocab: text.number("vocab_size")?.into(),
            ngram: text.number("ngram_size")? as usize,
            heads_per_ngram: text.number("heads_per_ngram")? as usize,
            base: text.number("ngram_vocab_size_base")?.into(),
            layer_number: 0,
        };
        seed.derive().map_err(|source| Error::Model { path: text.path.clone(), source })
    }

    /// A token id that the configuration names.
    pub(crate) fn token(&self, name: &str) -> Result<Option<u32>, Error> {
        let ids = self.text.numbers_if_there(name)?;
        Ok(ids.and_then(|ids| ids.first().copied()))
    }
}

/// Our key and theirs, for numbers that are taken as they are.
const NUMBERS: [(&str, &str); 20] = [
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("vocab_size", "vocab_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.value_length", "head_dim"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    ("ssm.conv_kernel", "linear_conv_kernel_dim"),
    ("ssm.state_size", "linear_key_head_dim"),
    ("ssm.group_count", "linear_num_key_heads"),
    ("ssm.time_step_rank", "linear_num_value_heads"),
    ("hyper_connection.count", "hc_count"),
    ("hyper_connection.low_rank", "hc_lowrank"),
    ("attention.indexer.head_count", "indexer_n_heads"),
    ("attention.indexer.key_length", "indexer_head_dim"),
    ("attention.indexer.top_k", "indexer_budget"),
];

fn key(short: &str) -> String {
    format!("qwen4exp.{short}")
}
