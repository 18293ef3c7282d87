//! What a scheduler takes on, and the refusals when it is too much.

use crate::SamplingError;

/// Limits of a scheduler. What is over one is refused at once, before any work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that may wait for a slot.
    pub queue: usize,
    /// Tokens that a request may have, prompt and answer together; never more than the context.
    pub request_tokens: usize,
    /// Bytes of keys and values that all live requests may come to, if there is a limit. A request
    /// waits while others hold the memory that it may need.
    pub cache_bytes: Option<u64>,
    /// Prompt rows of a window beside which others decode: the more, the sooner a prompt is done and
    /// the longer the others wait for their next token.
    pub prompt_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue: 64, request_tokens: usize::MAX, cache_bytes: None, prompt_rows: 64 }
    }
}

/// Why a request was not taken on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// As many requests wait as may.
    #[error("{limit} requests are waiting already, which is the limit; try again later")]
    QueueFull {
        /// Requests that may wait.
        limit: usize,
    },
    /// There is no prompt.
    #[error("the prompt is empty; it must encode to at least one token")]
    NoTokens,
    /// A token id is outside the vocabulary.
    #[error("token id {token} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The id.
        token: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// The prompt is longer than a request may be.
    #[error("the prompt has {tokens} tokens, a request may have {limit}; shorten it")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that a request may have.
        limit: usize,
    },
    /// The request alone could need more memory than all of them may have.
    #[error(
        "the request could need {bytes} bytes for keys and values, all requests together may have \
         {limit}; ask for fewer tokens"
    )]
    TooMuchMemory {
        /// Bytes that it could need.
        bytes: u64,
        /// Bytes that there are.
        limit: u64,
    },
    /// A sampling setting is unusable.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
}
