//! Plain text to ids: NFC, the `qwen35` split and byte-level merging. Only normal tokens are
//! known here, so that no control id can come out of text.

use std::collections::HashSet;

use tokenizers::models::bpe::{BPE, Merges, Vocab as MergeVocab};
use tokenizers::{Model, NormalizedString};

use super::alphabet;
use super::error::TokenizerError;
use super::split::Splitter;
use super::vocab::{TokenKind, Vocab};

/// Byte-level BPE over the normal tokens of a vocabulary.
#[derive(Debug)]
pub(super) struct Bpe {
    splitter: Splitter,
    model: BPE,
}

impl Bpe {
    /// From all texts of a file, of which the normal ones take part, and its merges.
    pub(super) fn new(
        texts: &[String],
        vocab: &Vocab,
        merges: &[String],
    ) -> Result<Bpe, TokenizerError> {
        let normal = normal_tokens(texts, vocab)?;
        check_bytes(&normal)?;
        let built = BPE::builder().vocab_and_merges(normal, split_merges(merges)?).build();
        let model = built.map_err(|error| wrong_merge(texts, vocab, merges, &*error))?;
        Ok(Bpe { splitter: Splitter::new()?, model })
    }

    /// The id of the normal token that stands for exactly this text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        let mut spelled = String::new();
        alphabet::spell(text.as_bytes(), &mut spelled);
        self.model.token_to_id(&spelled)
    }

    /// Appends the ids of a text without added tokens.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if text.is_ascii() {
            return self.encode_nfc(text, ids);
        }
        let mut normalized = NormalizedString::from(text);
        normalized.nfc();
        self.encode_nfc(normalized.get(), ids)
    }

    fn encode_nfc(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let mut spelled = String::new();
        self.splitter.split(text, |piece| {
            spelled.clear();
            alphabet::spell(piece.as_bytes(), &mut spelled);
            let tokens = self.model.tokenize(&spelled).map_err(failed)?;
            ids.extend(tokens.iter().map(|token| token.id));
            Ok(())
        })
    }
}

fn normal_tokens(texts: &[String], vocab: &Vocab) -> Result<MergeVocab, TokenizerError> {
    let mut normal = MergeVocab::with_capacity(texts.len());
    for ((id, kind), text) in vocab.kinds().zip(texts) {
        if kind != TokenKind::Normal {
            continue;
        }
        if let Some(first) = normal.insert(text.clone(), id) {
            let text = text.clone();
            return Err(TokenizerError::DuplicateToken { text, first, second: id });
        }
    }
    Ok(normal)
}

/// Bytes that UTF-8 never uses may be absent.
fn check_bytes(normal: &MergeVocab) -> Result<(), TokenizerError> {
    let used = (0..=255u8).filter(|byte| !matches!(byte, 0xC0 | 0xC1 | 0xF5..=0xFF));
    for byte in used {
        let mut spelled = [0; 4];
        if !normal.contains_key(&*alphabet::char_of(byte).encode_utf8(&mut spelled)) {
            return Err(TokenizerError::MissingByte { byte });
        }
    }
    Ok(())
}

fn split_merges(merges: &[String]) -> Result<Merges, TokenizerError> {
    let split = |(index, text): (usize, &String)| match text.split_once(' ') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
            Ok((left.to_owned(), right.to_owned()))
        }
        _ => Err(TokenizerError::MergeShape { index, text: text.clone() }),
    };
    merges.iter().enumerate().map(split).collect()
}

/// The first merge that made the model refuse them; its own error does not say which.
fn wrong_merge(
    texts: &[String],
    vocab: &Vocab,
    merges: &[String],
    error: &(dyn std::error::Error + Send + Sync),
) -> TokenizerError {
    let normal: HashSet<&str> = texts
        .iter()
        .zip(vocab.kinds())
        .filter(|(_, (_, kind))| *kind == TokenKind::Normal)
        .map(|(text, _)| text.as_str())
        .collect();
    for (index, text) in merges.iter().enumerate() {
        let joined = text.replace(' ', "");
        for token in text.split(' ').chain([joined.as_str()]) {
            if !normal.contains(token) {
                let (text, token) = (text.clone(), token.to_owned());
                return TokenizerError::MergeToken { index, text, token };
            }
        }
    }
    failed(error)
}

fn failed(error: impl std::fmt::Display) -> TokenizerError {
    TokenizerError::Bpe { reason: error.to_string() }
}
