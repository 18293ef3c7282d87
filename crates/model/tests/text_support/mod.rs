//! The tokenizers that the text tests share: the full vocabulary of the family, rebuilt from its
//! fixture, and a minimal one for files that are wrong.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod cases;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gguf::{Metadata, Value};
use model::tokenizer::Tokenizer;
use serde_json::Value as Json;

/// Rows of the real embedding; those without a token are unused.
const ROWS: usize = 248_320;

/// A file of the fixtures folder.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// A JSON fixture.
pub(crate) fn json(name: &str) -> Json {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

/// The full tokenizer, built once per test binary.
pub(crate) fn full() -> &'static Tokenizer {
    static FULL: LazyLock<Tokenizer> =
        LazyLock::new(|| Tokenizer::from_metadata(&full_metadata()).unwrap());
    &FULL
}

/// The metadata that a model file with the full tokenizer has.
pub(crate) fn full_metadata() -> Metadata {
    let packed = std::fs::File::open(fixture("tokenizer/tokenizer.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let file: Json = serde_json::from_str(&text).unwrap();

    let mut tokens: Vec<String> = (0..ROWS).map(|id| format!("[PAD{id}]")).collect();
    let mut types = vec![5i32; ROWS];
    for (token, id) in file["model"]["vocab"].as_object().unwrap() {
        let id = id.as_u64().unwrap() as usize;
        tokens[id] = token.clone();
        types[id] = 1;
    }
    for added in file["added_tokens"].as_array().unwrap() {
        let id = added["id"].as_u64().unwrap() as usize;
        tokens[id] = added["content"].as_str().unwrap().to_owned();
        types[id] = if added["special"].as_bool().unwrap() { 3 } else { 4 };
    }
    let merges: Vec<String> = file["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| merge.as_str().unwrap().to_owned())
        .collect();
    metadata(tokens, types, merges, 248_046)
}

/// Metadata of a tokenizer with everything required.
pub(crate) fn metadata(
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<String>,
    eos: u32,
) -> Metadata {
    let pairs: [(&str, Value); 6] = [
        ("tokenizer.ggml.model", "gpt2".into()),
        ("tokenizer.ggml.pre", "qwen35".into()),
        ("tokenizer.ggml.tokens", tokens.into()),
        ("tokenizer.ggml.token_type", types.into()),
        ("tokenizer.ggml.merges", merges.into()),
        ("tokenizer.ggml.eos_token_id", eos.into()),
    ];
    pairs.into_iter().collect()
}

/// The 256 bytes in the order of their spelling, then `<|im_end|>` (256), `<think>` (257) and an
/// unused row (258); no merges.
pub(crate) fn bytes_only() -> Metadata {
    let visible = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let codes = (0..256).filter(visible).chain(256..324);
    let mut tokens: Vec<String> =
        codes.map(|code| char::from_u32(code).unwrap().to_string()).collect();
    let mut types = vec![1; tokens.len()];
    for (text, kind) in [("<|im_end|>", 3), ("<think>", 4), ("[PAD]", 5)] {
        tokens.push(text.to_owned());
        types.push(kind);
    }
    metadata(tokens, types, Vec::new(), 256)
}

/// The ids of a JSON array.
pub(crate) fn ids(array: &Json) -> Vec<u32> {
    array.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}
