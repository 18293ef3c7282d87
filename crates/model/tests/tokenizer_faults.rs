//! Tokenizer metadata that is wrong: each fault is refused with an error that names it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod text_support;

use gguf::{Metadata, Value};
use model::tokenizer::{Tokenizer, TokenizerError};
use text_support::bytes_only;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

fn refused(change: impl FnOnce(&mut Metadata)) -> TokenizerError {
    let mut metadata = bytes_only();
    change(&mut metadata);
    Tokenizer::from_metadata(&metadata).expect_err("must be refused")
}

fn tokens(metadata: &Metadata) -> Vec<String> {
    metadata.get_str_array(TOKENS).unwrap().unwrap().to_vec()
}

fn set_token(metadata: &mut Metadata, id: usize, text: &str) {
    let mut all = tokens(metadata);
    all[id] = text.to_owned();
    metadata.insert(TOKENS, all);
}

fn set_merges(metadata: &mut Metadata, merges: &[&str]) {
    metadata.insert(MERGES, merges.iter().map(|&m| m.to_owned()).collect::<Vec<String>>());
}

#[test]
fn the_unchanged_metadata_is_accepted() {
    assert_eq!(Tokenizer::from_metadata(&bytes_only()).unwrap().vocab_size(), 259);
}

#[test]
fn every_required_key_is_missed_by_name() {
    for name in ["model", "pre", "tokens", "token_type", "merges"] {
        let key = format!("tokenizer.ggml.{name}");
        let error = refused(|m| drop(m.remove(&key)));
        assert!(matches!(error, TokenizerError::MissingKey { key: found } if found == key));
    }
}

#[test]
fn other_tokenizers_are_refused_by_name() {
    let cases = [("tokenizer.ggml.model", "llama"), ("tokenizer.ggml.pre", "qwen2")];
    for (key, value) in cases {
        let message = refused(|m| drop(m.insert(key, value))).to_string();
        assert!(message.contains(key) && message.contains(value), "{message}");
    }
}

#[test]
fn mistyped_keys_are_refused() {
    for key in ["tokenizer.ggml.model", TOKENS, TYPES, MERGES, "tokenizer.ggml.eos_token_id"] {
        let error = refused(|m| drop(m.insert(key, Value::F32(1.0))));
        assert!(matches!(error, TokenizerError::Metadata(_)), "{error}");
    }
}

#[test]
fn format_fault_48_arrays_of_differing_lengths() {
    let error = refused(|m| drop(m.insert(TYPES, vec![1i32; 7])));
    assert!(matches!(error, TokenizerError::Lengths { tokens: 259, types: 7 }), "{error}");
    let error = refused(|m| {
        m.insert(TOKENS, Vec::<String>::new());
        m.insert(TYPES, Vec::<i32>::new());
    });
    assert!(matches!(error, TokenizerError::VocabularySize { tokens: 0, .. }), "{error}");
}

#[test]
fn wrong_tokens_are_refused() {
    for kind in [0, 6, 7, -1] {
        let error = refused(|m| {
            let mut types = vec![1i32; 259];
            types[3] = kind;
            m.insert(TYPES, types);
        });
        assert!(matches!(error, TokenizerError::TokenType { id: 3, .. }), "{error}");
    }
    let error = refused(|m| set_token(m, 256, ""));
    assert!(matches!(error, TokenizerError::TokenLength { id: 256, len: 0, .. }), "{error}");
    let error = refused(|m| set_token(m, 257, &"x".repeat(5000)));
    assert!(matches!(error, TokenizerError::TokenLength { id: 257, len: 5000, .. }), "{error}");
    let error = refused(|m| set_token(m, 257, "<|im_end|>"));
    assert!(matches!(error, TokenizerError::DuplicateToken { first: 256, second: 257, .. }));
    let error = refused(|m| set_token(m, 1, "!"));
    assert!(matches!(error, TokenizerError::DuplicateToken { first: 0, second: 1, .. }));
    let error = refused(|m| set_token(m, 0, "!!"));
    assert!(matches!(error, TokenizerError::MissingByte { byte: b'!' }), "{error}");
}

#[test]
fn merges_of_unknown_tokens_are_refused() {
    let error = refused(|m| set_merges(m, &["a b"]));
    assert!(matches!(&error, TokenizerError::MergeToken { index: 0, token, .. } if token == "ab"));
    let error = refused(|m| set_merges(m, &["aa b"]));
    assert!(matches!(&error, TokenizerError::MergeToken { token, .. } if token == "aa"));
    let error = refused(|m| set_merges(m, &["<|im_ end|>"]));
    assert!(matches!(error, TokenizerError::MergeToken { .. }), "control tokens never merge");
    for merge in ["ab", "", "a b c", " b", "a "] {
        let error = refused(|m| set_merges(m, &[merge]));
        assert!(matches!(error, TokenizerError::MergeShape { index: 0, .. }), "{error}");
    }
}

#[test]
fn special_ids_outside_the_vocabulary_are_refused() {
    for name in ["bos", "eos", "eot", "padding"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let message = refused(|m| drop(m.insert(key.as_str(), 259u32))).to_string();
        assert!(message.contains(&key) && message.contains("259"), "{message}");
    }
}

#[test]
fn a_vocabulary_without_stop_token_is_refused() {
    let error = refused(|m| {
        m.remove("tokenizer.ggml.eos_token_id");
        set_token(m, 256, "<|other|>");
    });
    assert!(matches!(error, TokenizerError::NoStopToken), "{error}");
}

#[test]
fn messages_stay_short_whatever_the_file_holds() {
    let long = "x\n".repeat(100_000);
    let message = refused(|m| drop(m.insert("tokenizer.ggml.pre", long.as_str()))).to_string();
    assert!(message.len() < 400 && !message.contains('\n'), "{message}");
}
