//! What can be wrong with a file's tokenizer, or with ids given to it.

/// A file's tokens may be long or hold control characters; messages stay on one short line.
const MAX_QUOTED_CHARS: usize = 60;

/// Why a tokenizer cannot be built or used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are the names and numbers of the messages.
pub enum TokenizerError {
    /// A key has a value of another type or range.
    #[error(transparent)]
    Metadata(#[from] gguf::Error),
    /// A key that every tokenizer needs is absent.
    #[error(
        "metadata key {key} is missing: the file has no usable tokenizer, convert the model again"
    )]
    MissingKey { key: &'static str },
    /// A tokenizer or pre-tokenizer that is not implemented.
    #[error(
        "{key} is {}: not supported, only {supported:?} is; its text would be split \
         differently", quote(.found)
    )]
    Unsupported { key: &'static str, found: String, supported: &'static str },
    /// The token types do not match the tokens one to one.
    #[error(
        "tokenizer.ggml.tokens has {tokens} entries but tokenizer.ggml.token_type has {types}: \
         they must match one to one"
    )]
    Lengths { tokens: usize, types: usize },
    /// No tokens, or more than ids can name.
    #[error("tokenizer.ggml.tokens has {tokens} entries of {bytes} bytes: outside 1..2^31")]
    VocabularySize { tokens: usize, bytes: usize },
    /// A type number that byte-level BPE does not have.
    #[error(
        "token {id} has type {found}: byte-level BPE knows 1 (normal), 2 (unknown), 3 (control), \
         4 (user defined) and 5 (unused)"
    )]
    TokenType { id: usize, found: i64 },
    /// A token without text, or one of absurd length.
    #[error("token {id} has {len} bytes of text: outside 1..={most}")]
    TokenLength { id: usize, len: usize, most: usize },
    /// Two ids with one text.
    #[error("tokens {first} and {second} are both {}: encoding would be ambiguous", quote(.text))]
    DuplicateToken { text: String, first: u32, second: u32 },
    /// A byte that no token stands for, so that some text could not be encoded.
    #[error("no token stands for byte {byte:#04x}: byte-level BPE needs one for each")]
    MissingByte { byte: u8 },
    /// A merge that is not two pieces.
    #[error("merge {index} is {}: expected two pieces with one space between", quote(.text))]
    MergeShape { index: usize, text: String },
    /// A merge whose pieces or result are not in the vocabulary.
    #[error("merge {index}, {}: {} is not a normal token", quote(.text), quote(.token))]
    MergeToken { index: usize, text: String, token: String },
    /// A special id that the vocabulary does not have.
    #[error("{key} is {id}, but the vocabulary has {size} tokens")]
    SpecialId { key: &'static str, id: u32, size: usize },
    /// Nothing would ever end a generation.
    #[error(
        "no stop token: neither tokenizer.ggml.eos_token_id nor a control token such as \
         <|im_end|> is there"
    )]
    NoStopToken,
    /// An id that the vocabulary does not have.
    #[error("token id {id} is outside the vocabulary of {size} tokens")]
    UnknownId { id: u32, size: usize },
    /// The splitting or the merging failed; no known input does this.
    #[error("the text cannot be split into tokens: {reason}")]
    Bpe { reason: String },
}

/// The text in quotes, control characters escaped, cut to a readable length.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    quoted.extend(text.chars().take(MAX_QUOTED_CHARS).flat_map(char::escape_debug));
    if text.chars().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push_str("...");
    }
    quoted.push('"');
    quoted
}
