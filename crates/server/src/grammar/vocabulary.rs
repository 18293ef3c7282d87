//! A tokenizer's vocabulary as llguidance wants it.

use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use model::tokenizer::{SpecialTokens, TokenKind, Tokenizer};
use std::sync::Arc;

/// A vocabulary and its tokenizer.
struct Environment {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| self.tokenizer.encode(text, SpecialTokens::AsText);
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            encode(text).unwrap_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }

    /// Says that there may be several ways to write a text in tokens. Otherwise all text that a
    /// grammar forces is looked for and made tokens at once, without a limit: a million bytes of
    /// it keep a step, and with it everybody, for seconds.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// The vocabulary. Tokens with an id of their own, such as `<think>`, are apart: no text is made of
/// them, only a grammar that names them.
///
/// # Errors
/// A vocabulary that is too large, or has no token that ends a text.
pub(super) fn environment(tokenizer: &Tokenizer) -> Result<TokEnv, String> {
    let ends = tokenizer.stop_ids();
    let size = u32::try_from(tokenizer.vocab_size()).map_err(|error| error.to_string())?;
    let first = *ends.first().ok_or("the model has no token that ends a text")?;
    let bytes = |id: u32| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        match tokenizer.kind(id) {
            Some(TokenKind::Normal) => bytes.to_vec(),
            Some(TokenKind::Control | TokenKind::UserDefined) => {
                [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
            }
            Some(TokenKind::Unused) | None => Vec::new(),
        }
    };
    let words: Vec<Vec<u8>> = (0..size).map(bytes).collect();
    let trie = TokTrie::from(&TokRxInfo::new(size, first), &words).with_eos_tokens(ends);
    Ok(Arc::new(Environment { tokenizer: tokenizer.clone(), trie }))
}
