//! What A predicts of a text, in a file.
//!
//! All numbers are little-endian. `sum` is a checksum (FNV-1a, 64 bits) of all bytes of the file
//! before it, so no part can be of another file.
//!
//! ```text
//! header    "TUFFKLD\n", u32 version, u32 vocab, u64 vocabulary, u64 model, u32 ctx, u32 skip,
//!           f64 tail, u32 draws, u32 length, A in words (UTF-8),
//!           u32 passages, passages * ctx token ids (u32), u64 sum
//! passage   u32 its number, positions, u64 sum
//! position  f32 largest logit, f64 ln(sum of exp(logit - largest)), f32 logit of the next token,
//!           u32 kept, kept ids by rising id (varint: the first, then gaps less 1), kept logits
//!           (f32), f64 mass of the tail;
//!           with a tail: f64 sum of p ln p over it, draws * (u32 id, f32 logit)
//! varint    7 bits a byte, the lower first; all bytes but the last have their top bit set
//! ```
//!
//! `vocabulary` and `model` are fingerprints. A passage is written when it is computed, so a run
//! that was interrupted leaves whole passages and perhaps a part of one; [`build`] keeps the whole
//! ones and goes on. The bytes are the same as without interruption.

mod read;
mod write;

pub use read::{Base, compare};
pub use write::{Built, build};

use super::{BadCut, Cut, Keep, Predictor};
use crate::binary::Kind;

pub(crate) const KIND: Kind = Kind {
    magic: b"TUFFKLD\n",
    version: 1,
    what: "base logits",
    by: "tuff kld --save-base",
    if_cut: "run the command that wrote it once more, and it goes on there",
};

/// Tokens drawn per position.
const MOST_DRAWS: u32 = 4096;

/// What a base file is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Logits of a position.
    pub vocab: usize,
    /// [`super::vocabulary_fingerprint`] of A.
    pub vocabulary: u64,
    /// Fingerprint of A's model and settings.
    pub model: u64,
    /// A in words, for reports; it tells settings apart, too.
    pub about: String,
    /// Tokens of a passage.
    pub ctx: usize,
    /// First position of a passage that is scored.
    pub skip: usize,
    /// What is kept of a position.
    pub keep: Keep,
    /// Tokens of all passages.
    pub tokens: Vec<u32>,
}

impl Header {
    /// For what `a` predicts of the passages of `text`.
    ///
    /// # Errors
    /// [`BadCut`].
    pub fn new(
        a: &dyn Predictor,
        vocabulary: u64,
        about: String,
        (text, cut): (&[u32], &Cut),
        keep: Keep,
    ) -> Result<Self, BadCut> {
        let used = cut.passages(text.len())? * cut.ctx;
        let Cut { ctx, skip, .. } = *cut;
        let (vocab, model, tokens) = (a.vocab(), a.fingerprint(), text[..used].to_vec());
        Ok(Self { vocab, vocabulary, model, about, ctx, skip, keep, tokens })
    }

    /// How the text is cut.
    pub fn cut(&self) -> Cut {
        Cut { ctx: self.ctx, skip: self.skip, most: None }
    }

    /// Passages of the text.
    pub fn passages(&self) -> usize {
        self.tokens.len() / self.ctx
    }
}
