//! Draft vocabularies: choosing the tokens that a small draft head has rows for, and telling what
//! such a list holds.
//!
//! * [`TokenCounts`]: how often tokens occur in texts, and what a list covers of them.
//! * [`Scripts`]: writing systems, and which tokens are written in them.
//! * [`Recipe`]: builds a list from either or both.
//! * [`Contents`]: what a list holds.

mod build;
mod contents;
mod counts;
mod fragment;
mod script;
#[cfg(test)]
mod toy;

pub use build::{BuildError, Recipe};
pub use contents::Contents;
pub use counts::{Missing, TokenCounts};
pub use script::{Scripts, UnknownScript};

use model::tokenizer::{TokenKind, Tokenizer};

/// Tokens that belong to every draft vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    Control,
    UserDefined,
    /// One of the 256 single bytes, of which any text can be made.
    Byte,
}

/// What a token is if it belongs to every draft vocabulary: without it, no turn would end, no tag
/// open and no rare character be written by a drafted token.
fn basic(tokenizer: &Tokenizer, id: u32) -> Option<Basic> {
    match tokenizer.kind(id)? {
        TokenKind::Control => Some(Basic::Control),
        TokenKind::UserDefined => Some(Basic::UserDefined),
        TokenKind::Normal if tokenizer.token_bytes(id)?.len() == 1 => Some(Basic::Byte),
        TokenKind::Normal | TokenKind::Unused => None,
    }
}
