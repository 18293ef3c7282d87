//! The tokenizer of a model file: byte-level BPE with the `qwen35` pre-tokenizer, built from the
//! file's own vocabulary (docs/qwen4exp.md, section 11).
//!
//! Encoding cuts added tokens out of the text (unless they are to be read as text), brings the
//! rest to Unicode form NFC, splits it by the pre-tokenizer's pattern and merges each piece.
//! Decoding is lossless in bytes; [`StreamDecoder`] turns ids into text one at a time.

mod added;
mod alphabet;
mod bpe;
mod error;
mod special;
mod split;
mod stream;
mod vocab;

use std::sync::Arc;

pub use error::TokenizerError;
pub use stream::{StreamDecoder, Utf8Stream};
pub use vocab::TokenKind;

use added::AddedTokens;
use bpe::Bpe;
use special::SpecialIds;
use vocab::Vocab;

/// How [`Tokenizer::encode`] treats control and user-defined tokens that are spelled out in the
/// text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Each becomes its own id, longest match first: for text that a template wrote.
    Parse,
    /// They are text like any other, so that no such id comes out: for text of strangers.
    AsText,
}

/// Whether decoding leaves out control tokens. User-defined tokens, such as `<think>`, stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipSpecial {
    /// Control tokens decode to nothing.
    Yes,
    /// Control tokens decode to their text.
    No,
}

/// A vocabulary with its merges and token kinds. Cloning is cheap: clones share one vocabulary.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    vocab: Vocab,
    added: AddedTokens,
    bpe: Bpe,
    special: SpecialIds,
}

impl Tokenizer {
    /// Reads the `tokenizer.ggml.*` keys.
    ///
    /// # Errors
    /// Absent or mistyped keys, a tokenizer of another kind, arrays of differing lengths, tokens
    /// or merges that contradict each other, ids outside the vocabulary, no stop token.
    pub fn from_metadata(metadata: &gguf::Metadata) -> Result<Tokenizer, TokenizerError> {
        check_kind(metadata, special::MODEL, "gpt2")?;
        check_kind(metadata, special::PRE, "qwen35")?;
        let texts = required(special::TOKENS, metadata.get_str_array(special::TOKENS)?)?;
        let types = required(special::TYPES, metadata.get_i64_array(special::TYPES)?)?;
        let merges = required(special::MERGES, metadata.get_str_array(special::MERGES)?)?;

        let vocab = Vocab::new(texts, &types)?;
        let added = AddedTokens::new(texts, &vocab)?;
        let bpe = Bpe::new(texts, &vocab, merges)?;
        let special = SpecialIds::read(metadata, vocab.len(), &added)?;
        Ok(Tokenizer { inner: Arc::new(Inner { vocab, added, bpe, special }) })
    }

    /// The ids of a text. No BOS is added; see [`Tokenizer::add_bos`].
    ///
    /// # Errors
    /// [`TokenizerError::Bpe`] if splitting or merging fails, which no known text makes happen.
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        let mut rest = text;
        if special == SpecialTokens::Parse {
            while let Some(found) = self.inner.added.find(rest) {
                self.inner.bpe.encode(&rest[..found.start], &mut ids)?;
                ids.push(found.id);
                rest = &rest[found.end..];
            }
        }
        self.inner.bpe.encode(rest, &mut ids)?;
        Ok(ids)
    }

    /// The bytes of a sequence of ids. Unused ids decode to nothing.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id outside the vocabulary.
    pub fn decode(&self, ids: &[u32], skip: SkipSpecial) -> Result<Vec<u8>, TokenizerError> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            bytes.extend_from_slice(self.shown_bytes(id, skip)?);
        }
        Ok(bytes)
    }

    /// [`Tokenizer::decode`] as text, U+FFFD in place of bytes that are not UTF-8.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id outside the vocabulary.
    pub fn decode_text(&self, ids: &[u32], skip: SkipSpecial) -> Result<String, TokenizerError> {
        Ok(String::from_utf8_lossy(&self.decode(ids, skip)?).into_owned())
    }

    /// A decoder for ids that arrive one at a time.
    #[must_use]
    pub fn stream(&self, skip: SkipSpecial) -> StreamDecoder {
        StreamDecoder::new(self.clone(), skip)
    }

    /// The bytes that an id stands for, a control token's text included; empty for an unused id,
    /// `None` outside the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.inner.vocab.bytes(id)
    }

    /// The bytes of a token as text for display, U+FFFD for partial characters.
    #[must_use]
    pub fn piece(&self, id: u32) -> Option<String> {
        self.token_bytes(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The id of the token that stands for exactly this text; added tokens come first.
    #[must_use]
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.inner.added.id(text).or_else(|| self.inner.bpe.id(text))
    }

    /// The number of ids, unused ones included.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.inner.vocab.len()
    }

    /// The kind of a token, `None` outside the vocabulary.
    #[must_use]
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.inner.vocab.kind(id)
    }

    /// True for control tokens such as `<|im_end|>`.
    #[must_use]
    pub fn is_control(&self, id: u32) -> bool {
        self.kind(id) == Some(TokenKind::Control)
    }

    /// True for ids that end a generation; see [`Tokenizer::stop_ids`].
    #[must_use]
    pub fn is_eog(&self, id: u32) -> bool {
        self.inner.special.stop.binary_search(&id).is_ok()
    }

    /// The ids that end a generation, ascending: the file's end-of-sequence and end-of-turn ids,
    /// `<|im_end|>`, `<|endoftext|>`, `<|fim_pad|>`, `<|repo_name|>` and `<|file_sep|>`.
    #[must_use]
    pub fn stop_ids(&self) -> &[u32] {
        &self.inner.special.stop
    }

    /// The beginning-of-sequence id that the file names.
    #[must_use]
    pub fn bos_id(&self) -> Option<u32> {
        self.inner.special.bos
    }

    /// The end-of-sequence id that the file names.
    #[must_use]
    pub fn eos_id(&self) -> Option<u32> {
        self.inner.special.eos
    }

    /// The padding id that the file names.
    #[must_use]
    pub fn padding_id(&self) -> Option<u32> {
        self.inner.special.padding
    }

    /// Whether the file wants a prompt without a template to begin with [`Tokenizer::bos_id`].
    #[must_use]
    pub fn add_bos(&self) -> bool {
        self.inner.special.add_bos
    }

    /// The texts of all control and user-defined tokens, in no particular order.
    pub fn added_tokens(&self) -> impl Iterator<Item = (&str, u32)> {
        self.inner.added.iter()
    }

    /// The first control or user-defined token spelled out in a text, as a byte range and an id.
    pub(crate) fn find_added(&self, text: &str) -> Option<(std::ops::Range<usize>, u32)> {
        self.inner.added.find(text).map(|found| (found.start..found.end, found.id))
    }

    fn shown_bytes(&self, id: u32, skip: SkipSpecial) -> Result<&[u8], TokenizerError> {
        let size = self.vocab_size();
        let bytes = self.token_bytes(id).ok_or(TokenizerError::UnknownId { id, size })?;
        let hidden = skip == SkipSpecial::Yes && self.is_control(id);
        Ok(if hidden { &[] } else { bytes })
    }
}

fn check_kind(
    metadata: &gguf::Metadata,
    key: &'static str,
    supported: &'static str,
) -> Result<(), TokenizerError> {
    let found = required(key, metadata.get_str(key)?)?;
    if found == supported {
        Ok(())
    } else {
        Err(TokenizerError::Unsupported { key, found: found.to_owned(), supported })
    }
}

fn required<T>(key: &'static str, value: Option<T>) -> Result<T, TokenizerError> {
    value.ok_or(TokenizerError::MissingKey { key })
}
