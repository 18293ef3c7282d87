//! How far a model or setting B is from A on a text, by what they predict.
//!
//! The text is cut into passages, each computed from an empty state; of each the later part is
//! scored (see [`Cut`]). Logits are compared as they come, a few rows at a time, so memory does not
//! grow with the text.
//!
//! * [`compare`]: A and B side by side, exactly.
//! * [`base`]: what A predicts, in a file that many B can be compared with: [`base::build`] writes
//!   it and goes on where it was interrupted, [`base::compare`] reads it. What it leaves out, and
//!   how much that can change, is at the top of `kept.rs` and in `docs/quality.md`.
//! * [`Report`]: the figures.

pub mod base;
mod compare;
mod cut;
mod kept;
mod predictor;
mod report;
mod softmax;

pub use compare::compare;
pub use cut::{BadCut, Cut};
pub use predictor::Predictor;
pub use report::{Estimate, PERCENTILES, Report};

use crate::binary::{Checksum, FileError};
use model::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// What is told how many tokens are done; it may ask to stop.
pub type Watch<'a> = dyn FnMut(usize) -> ControlFlow<()> + 'a;

/// How much of a distribution a base file keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keep {
    /// Probability that the tokens which are not kept one by one may have together, 0 to 1.
    pub tail: f64,
    /// Tokens drawn from those.
    pub draws: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { tail: 1e-4, draws: 8 }
    }
}

/// One scored position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Kullback-Leibler divergence of B from A, in nats: exact, or right on average.
    pub kl: f64,
    /// It is not less than this.
    pub low: f64,
    /// It is not more than this.
    pub high: f64,
    /// Whether both have the same likeliest token.
    pub same_top: bool,
    /// Negative logarithm of the probability of the token that follows, of B and of A.
    pub surprise: [f64; 2],
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is compared with.
    A,
    /// What is compared.
    B,
}

/// Why there are no scores.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text cannot be cut as asked.
    #[error(transparent)]
    Cut(#[from] BadCut),
    /// Running a model failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The base file cannot be used.
    #[error("base file: {0}")]
    File(#[from] FileError),
    /// A logit is infinite or no number.
    #[error(
        "{side:?} gives a logit that is no finite number for token {token} of passage {passage}; \
         its model file may be damaged (`tuff inspect --check` tells)"
    )]
    NotFinite {
        /// Whose logit.
        side: Side,
        /// The passage, from 1.
        passage: usize,
        /// The token of the passage, from 1.
        token: usize,
    },
    /// A and B have different vocabularies.
    #[error(
        "A has a vocabulary of {a} tokens, B one of {b}, or the tokens differ: what they predict \
         cannot be compared"
    )]
    Vocabulary {
        /// Tokens of A.
        a: usize,
        /// Tokens of B.
        b: usize,
    },
    /// A base file of this name holds something else.
    #[error(
        "the base file is of another {what}; give the same text, model and settings to go on with \
         it, or write to a file of another name"
    )]
    OtherBase {
        /// What differs.
        what: &'static str,
    },
    /// A base file that was not completed.
    #[error(
        "the base file holds {done} of {all} passages; complete it first: run the command that \
         began it once more"
    )]
    Incomplete {
        /// Passages that are there.
        done: usize,
        /// Passages of the text.
        all: usize,
    },
    /// Whoever watches has asked for it.
    #[error("stopped")]
    Stopped,
}

/// Tells vocabularies apart: number, bytes and kinds of the tokens.
pub fn vocabulary_fingerprint(tokenizer: &Tokenizer) -> u64 {
    let mut sum = Checksum::new();
    for id in 0..tokenizer.vocab_size() as u32 {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        sum.add(&(bytes.len() as u32).to_le_bytes());
        sum.add(bytes);
        sum.add(format!("{:?}", tokenizer.kind(id)).as_bytes());
    }
    sum.value()
}
