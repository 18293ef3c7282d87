//! The tokens by id: the bytes each stands for, in one buffer, and its kind.

use super::alphabet;
use super::error::TokenizerError;

/// Longest text of a token. The longest known ones have 128 bytes; the limit keeps the search
/// for added tokens cheap whatever a file holds.
const MAX_TOKEN_BYTES: usize = 4096;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text, made by merging.
    Normal,
    /// Structure of a conversation, such as `<|im_end|>`; no part of the text.
    Control,
    /// Text with an id of its own, such as `<think>`; shown when decoded.
    UserDefined,
    /// A row of the embedding without a meaning.
    Unused,
}

impl TokenKind {
    fn from_number(id: usize, number: i64) -> Result<TokenKind, TokenizerError> {
        match number {
            1 => Ok(TokenKind::Normal),
            3 => Ok(TokenKind::Control),
            4 => Ok(TokenKind::UserDefined),
            2 | 5 => Ok(TokenKind::Unused),
            found => Err(TokenizerError::TokenType { id, found }),
        }
    }

    /// True for tokens that are recognised in text before it is split.
    pub(super) fn is_added(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::UserDefined)
    }
}

/// Bytes and kinds by id.
#[derive(Debug)]
pub(super) struct Vocab {
    bytes: Vec<u8>,
    /// End of each token in `bytes`; it starts where the one before it ends.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
}

impl Vocab {
    /// From the texts and type numbers of a file.
    pub(super) fn new(texts: &[String], types: &[i64]) -> Result<Vocab, TokenizerError> {
        if texts.len() != types.len() {
            return Err(TokenizerError::Lengths { tokens: texts.len(), types: types.len() });
        }
        let total = texts.iter().fold(0usize, |sum, text| sum.saturating_add(text.len()));
        let most = i32::MAX as usize;
        if texts.is_empty() || texts.len() > most || total > most {
            return Err(TokenizerError::VocabularySize { tokens: texts.len(), bytes: total });
        }
        let mut vocab = Vocab {
            bytes: Vec::with_capacity(total),
            ends: Vec::with_capacity(texts.len()),
            kinds: Vec::with_capacity(texts.len()),
        };
        for (id, (text, &number)) in texts.iter().zip(types).enumerate() {
            vocab.push(text, TokenKind::from_number(id, number)?)?;
        }
        Ok(vocab)
    }

    fn push(&mut self, text: &str, kind: TokenKind) -> Result<(), TokenizerError> {
        let (id, len, most) = (self.kinds.len(), text.len(), MAX_TOKEN_BYTES);
        if kind != TokenKind::Unused && (len == 0 || len > most) {
            return Err(TokenizerError::TokenLength { id, len, most });
        }
        match kind {
            TokenKind::Normal => alphabet::read(text, &mut self.bytes),
            TokenKind::Control | TokenKind::UserDefined => self.bytes.extend(text.as_bytes()),
            TokenKind::Unused => {}
        }
        // The sum of the texts was checked, and no text grows.
        self.ends.push(self.bytes.len() as u32);
        self.kinds.push(kind);
        Ok(())
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The kind of a token.
    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// The kinds in order of id.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (u32, TokenKind)> {
        (0u32..).zip(self.kinds.iter().copied())
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)? as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }
}
