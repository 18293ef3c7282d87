//! Hyper-parameters: the released model's sizes, lenient spellings, and every refusal.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use gguf::{Metadata, Value};
use model::{Error, HyperParams, LayerKind};

fn read(meta: &Metadata) -> HyperParams {
    HyperParams::from_metadata(meta).unwrap()
}

/// The released metadata with one key changed.
fn with(key: &str, value: impl Into<Value>) -> Metadata {
    let mut meta = common::released();
    meta.insert(format!("qwen4exp.{key}"), value);
    meta
}

fn without(key: &str) -> Metadata {
    let mut meta = common::released();
    meta.remove(&format!("qwen4exp.{key}")).unwrap();
    meta
}

/// The error of a file, which must name the key and hold the words.
fn refused(meta: &Metadata, words: &[&str]) {
    let message = HyperParams::from_metadata(meta).unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

#[test]
fn the_released_models_sizes() {
    let hp = read(&common::released());
    let sparse = LayerKind::Attention { block: 4 };
    assert_eq!(hp.layers.len(), 48);
    assert!((0..48).all(|n| (hp.layers[n] == sparse) == (n % 4 == 3)));
    assert_eq!((hp.gdn_layers(), hp.attn_layers(), hp.sparse_layers()), (36, 12, 12));
    assert_eq!((hp.stream_dim(), hp.gdn_channels(), hp.gdn_value_dim()), (10240, 10240, 6144));
    assert_eq!((hp.attn_dim(), hp.kv_dim(), hp.index_dim()), (6144, 512, 512));
    let ple = hp.ple.as_ref().unwrap();
    assert_eq!((ple.layer, ple.heads(), ple.width(), ple.dilation), (1, 16, 2560, 3));
    assert_eq!(ple.rows_needed(), 320_001_446);

    assert_eq!(hp.gdn_state_bytes(), 113_246_208);
    assert_eq!(hp.gdn_conv_bytes(), 4_423_680);
    assert_eq!(hp.ple_conv_bytes(), 368_640);
    assert_eq!(hp.wide_bytes(), 40_960);
    assert_eq!(hp.kv_bytes_per_token(2), 24_576);
    assert_eq!(hp.index_key_bytes_per_token(2), 3_072);
    assert_eq!(hp.mtp_kv_bytes_per_token(2), 0);
    assert_eq!(hp.fixed_state_bytes(), 113_246_208 + 4_423_680 + 368_640);
    assert_eq!(hp.deferred_row_bytes(), 36 * 2 * (10_240 + 48) * 4 + 40_960);
}

#[test]
fn a_block_count_includes_the_mtp_block() {
    let mut meta = with("nextn_predict_layers", 1_u32);
    meta.insert("qwen4exp.block_count", 49_u32);
    let trunk_only = read(&meta);
    assert_eq!((trunk_only.layers.len(), trunk_only.mtp_layers, trunk_only.mtp_block), (48, 1, 0));
    assert_eq!(trunk_only.mtp_kv_bytes_per_token(2), 2_048);

    let mut ratios: Vec<i32> = (0..48).map(|n| if n % 4 == 3 { 4 } else { 0 }).collect();
    ratios.push(8);
    meta.insert("qwen4exp.attention.compress_ratios", ratios);
    let hp = read(&meta);
    assert_eq!((hp.layers.len(), hp.mtp_block), (48, 8));
    assert_eq!(hp.layers, trunk_only.layers);
}

/// Known fault 10: per-layer arrays may leave out the MTP block.
#[test]
fn fault_010_per_layer_arrays_of_either_length() {
    let mut meta = with("nextn_predict_layers", 1_u32);
    meta.insert("qwen4exp.block_count", 49_u32);
    let expected = read(&meta);
    for len in [48, 49] {
        let mut meta = meta.clone();
        meta.insert("qwen4exp.attention.head_count", vec![24_u32; len]);
        meta.insert("qwen4exp.expert_feed_forward_length", vec![640_u32; len]);
        // Layers without attention may say that they have no heads.
        let kv: Vec<u32> = (0..len).map(|n| if n % 4 == 3 || n == 48 { 2 } else { 0 }).collect();
        meta.insert("qwen4exp.attention.head_count_kv", kv);
        assert_eq!(read(&meta), expected);
    }
    for len in [0, 47, 50] {
        let mut meta = meta.clone();
        meta.insert("qwen4exp.attention.head_count", vec![24_u32; len]);
        refused(&meta, &["head_count", "49 entries, or 48", &format!("array of {len}")]);
    }
}

#[test]
fn layers_of_different_sizes_are_refused() {
    let mut widths = vec![640_u32; 48];
    widths[7] = 320;
    refused(&with("expert_feed_forward_length", widths), &["expert_feed_forward_length", "320"]);
    let mut heads = vec![24_u32; 48];
    heads[3] = 12;
    refused(&with("attention.head_count", heads), &["head_count", "12", "24"]);
    refused(&with("attention.head_count", vec![0_u32; 48]), &["head_count is 0"]);
}

#[test]
fn recurrent_layers_override_the_interval() {
    let flags: Vec<bool> = (0..48).map(|n| n != 5).collect();
    let hp = read(&with("attention.recurrent_layers", flags));
    assert_eq!(hp.attn_layers(), 1);
    assert_eq!(hp.layers[5], LayerKind::Attention { block: 0 });
    let numbers: Vec<i32> = (0..48).map(|n| i32::from(n % 4 != 3)).collect();
    assert_eq!(
        read(&with("attention.recurrent_layers", numbers)).layers,
        read(&common::released()).layers
    );
    assert_eq!(read(&without("full_attention_interval")), read(&common::released()));
}

#[test]
fn absent_keys_that_may_be_absent() {
    let expected = read(&common::released());
    assert_eq!(read(&without("vocab_size")).vocab, 0);
    for key in ["attention.value_length", "ssm.inner_size"] {
        assert_eq!(read(&without(key)), expected, "{key}");
    }
    let image = read(&without("ple.image_token_id")).ple.unwrap().image;
    assert_eq!(image, 248_044, "the end id stands in");
    let three = with("rope.dimension_sections", vec![11_i32, 11, 10]);
    assert_eq!(read(&three), expected);
    assert_eq!(read(&without("rope.dimension_sections")).attn.rope_sections, [0; 4]);

    let mut no_ple = common::released();
    let keys: Vec<String> = no_ple.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys.iter().filter(|key| key.contains(".ple.")) {
        no_ple.remove(key);
    }
    assert_eq!(read(&no_ple).ple, None);
    assert_eq!(read(&with("ple.layers", Vec::<i32>::new())).ple, None);
}

#[test]
fn an_indexer_is_needed_only_by_sparse_layers() {
    refused(&without("attention.indexer.top_k"), &["attention.indexer.top_k is missing"]);
    let mut dense = with("attention.compress_ratios", vec![0_i32; 48]);
    for key in ["head_count", "key_length", "top_k"] {
        dense.remove(&format!("qwen4exp.attention.indexer.{key}")).unwrap();
    }
    let hp = read(&dense);
    assert_eq!((hp.sparse_layers(), hp.attn_layers()), (0, 12));
    assert_eq!(hp.indexer, model::IndexerParams::default());
}

#[test]
fn numbers_in_any_integer_type() {
    let mut meta = common::released();
    let entries: Vec<_> = meta.iter().map(|(k, v)| (k.to_owned(), v.clone())).collect();
    for (key, value) in entries {
        if let Value::U32(number) = value {
            meta.insert(key, i64::from(number));
        }
    }
    assert_eq!(read(&meta), read(&common::released()));
}

#[test]
fn sampling_defaults_if_present() {
    assert_eq!(read(&common::released()).sampling, None);
    let mut meta = common::released();
    meta.insert("general.sampling.temp", 0.8_f32);
    meta.insert("general.sampling.top_k", -1_i32);
    let sampling = read(&meta).sampling.unwrap();
    assert_eq!((sampling.temp, sampling.top_k, sampling.top_p), (Some(0.8), Some(0), None));
    meta.insert("general.sampling.top_p", f32::NAN);
    refused(&meta, &["general.sampling.top_p", "NaN"]);
}

#[test]
fn another_architecture_is_refused_by_name() {
    let mut meta = common::released();
    meta.insert("general.architecture", "llama");
    refused(&meta, &["\"llama\"", "\"qwen4exp\""]);
    meta.remove("general.architecture");
    assert!(matches!(
        HyperParams::from_metadata(&meta),
        Err(Error::Architecture { found }) if found.is_empty()
    ));
    meta.insert("general.architecture", 7_u32);
    refused(&meta, &["general.architecture"]);
}

#[test]
fn every_required_key_is_missed_by_name() {
    let optional = [
        "vocab_size",
        "attention.value_length",
        "ssm.inner_size",
        "ple.image_token_id",
        "rope.dimension_sections",
        "full_attention_interval",
    ];
    let meta = common::released();
    for (key, _) in meta.iter() {
        let Some(short) = key.strip_prefix("qwen4exp.") else { continue };
        if !optional.contains(&short) {
            refused(&without(short), &[&format!("{key} is missing")]);
        }
    }
}

/// Every number at 0, at 2^32 - 1, negative, and as text: an error that names the key, no panic.
#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let may_be_zero = ["ple.eos_token_id", "ple.image_token_id"];
    let meta = common::released();
    for (key, value) in meta.iter() {
        let Some(short) = key.strip_prefix("qwen4exp.") else { continue };
        if value.as_array().is_some() {
            refused(&with(short, "text"), &[key]);
            continue;
        }
        refused(&with(short, "text"), &[key]);
        refused(&with(short, -1_i32), &[key]);
        if value.as_integer().is_some() {
            refused(&with(short, u32::MAX), &[key]);
            refused(&with(short, u64::MAX), &[key]);
            refused(&with(short, vec![-1_i32; 48]), &[key]);
        }
        if !may_be_zero.contains(&short) {
            refused(&with(short, 0_u32), &[key]);
        }
    }
    for bad in [f32::NAN, f32::INFINITY, -1.0, 0.0] {
        refused(&with("attention.layer_norm_rms_epsilon", bad), &["rms_epsilon"]);
        refused(&with("rope.freq_base", bad), &["rope.freq_base"]);
    }
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    refused(&with("attention.head_count_kv", 5_u32), &["head_count is 24", "head_count_kv is 5"]);
    refused(&with("expert_used_count", 513_u32), &["expert_used_count is 513", "512"]);
    refused(&with("rope.dimension_count", 63_u32), &["dimension_count is 63", "pairs"]);
    refused(&with("rope.dimension_count", 258_u32), &["dimension_count is 258", "256"]);
    refused(&with("rope.dimension_count", 130_u32), &["indexer.key_length"]);
    refused(&with("attention.value_length", 128_u32), &["value_length", "256"]);
    refused(&with("ssm.group_count", 5_u32), &["time_step_rank is 48", "group_count is 5"]);
    refused(&with("ssm.inner_size", 6143_u32), &["inner_size is 6143", "6144"]);
    refused(&with("attention.indexer.top_k", 3_u32), &["top_k is 3", "4 tokens"]);
    refused(&with("rope.dimension_sections", vec![11_i32, 11, 11, 0]), &["sections", "32"]);
    refused(&with("rope.dimension_sections", vec![-1_i32, 1, 1]), &["sections"]);
    refused(&with("rope.dimension_sections", vec![1_i32; 1000]), &["sections"]);
    refused(&with("attention.compress_ratios", vec![-4_i32; 48]), &["compress_ratios is -4"]);
    refused(&with("attention.recurrent_layers", vec![2_i32; 48]), &["recurrent_layers is 2"]);
    refused(&with("nextn_predict_layers", 2_u32), &["2 MTP blocks"]);
    let mut no_trunk = with("nextn_predict_layers", 1_u32);
    no_trunk.insert("qwen4exp.block_count", 1_u32);
    refused(&no_trunk, &["block_count is 1"]);
}

#[test]
fn hash_constants_that_cannot_be_used_are_refused() {
    let mut sizes = common::RELEASED_SIZES.to_vec();
    refused(&with("ple.head_vocab_sizes", sizes[..15].to_vec()), &["array of 15", "16 numbers"]);
    refused(&with("ple.layer_multipliers", vec![1_u64; 4]), &["layer_multipliers", "3 numbers"]);
    refused(&with("ple.head_offsets", vec![-1_i64; 16]), &["head_offsets", "negative"]);
    sizes[3] = 0;
    refused(&with("ple.head_vocab_sizes", sizes.clone()), &["head_vocab_sizes is 0", "head 3"]);
    sizes[3] = u64::MAX;
    refused(&with("ple.head_vocab_sizes", sizes), &["head 3", "overflows"]);
    refused(&with("ple.layers", vec![1_i32, 5]), &["2 PLE layers", "not supported"]);
    refused(&with("ple.layers", vec![48_i32]), &["ple.layers is 48", "0 to 47"]);
    refused(&with("ple.layers", vec![-1_i32]), &["ple.layers is -1"]);
    refused(&with("ple.eos_token_id", 248_320_u32), &["eos_token_id is 248320", "248320 tokens"]);
    // Multipliers wrap on purpose.
    assert!(HyperParams::from_metadata(&with("ple.layer_multipliers", vec![u64::MAX; 3])).is_ok());
}

/// At every limit at once the derived sizes still do not overflow.
#[test]
fn sizes_at_the_limits_do_not_overflow() {
    use model::sizes::{
        MAX_EXPERTS, MAX_HEAD_DIM, MAX_HEADS, MAX_KERNEL, MAX_LAYERS, MAX_NGRAM, MAX_STREAMS,
        MAX_WIDTH,
    };
    let mut hp = read(&common::released());
    hp.layers = vec![LayerKind::Gdn; MAX_LAYERS];
    hp.embd = MAX_WIDTH;
    hp.hc.streams = MAX_STREAMS;
    hp.hc.rank = MAX_WIDTH;
    hp.attn.heads = MAX_HEADS;
    hp.attn.kv_heads = MAX_HEADS;
    hp.attn.head_dim = MAX_HEAD_DIM;
    hp.indexer.heads = MAX_HEADS;
    hp.indexer.head_dim = MAX_HEAD_DIM;
    hp.gdn.key_heads = MAX_HEADS;
    hp.gdn.value_heads = MAX_HEADS;
    hp.gdn.head_dim = MAX_HEAD_DIM;
    hp.gdn.conv_kernel = MAX_KERNEL;
    hp.moe.experts = MAX_EXPERTS;
    hp.moe.expert_ff = MAX_WIDTH;
    let ple = hp.ple.as_mut().unwrap();
    ple.conv_kernel = MAX_KERNEL;
    ple.dilation = MAX_NGRAM;
    ple.row_width = MAX_HEAD_DIM;
    ple.sizes = vec![1; (MAX_NGRAM - 1) * MAX_HEADS];
    ple.offsets = ple.sizes.clone();
    assert!(hp.fixed_state_bytes() < 1 << 62);
    hp.layers = vec![LayerKind::Attention { block: 1 }; MAX_LAYERS];
    assert!(hp.kv_bytes_per_token(4) < 1 << 62);
    assert!(hp.index_key_bytes_per_token(4) < 1 << 62);
    assert!(model::Role::all().all(|role| role.shape(&hp).is_some()));
}
