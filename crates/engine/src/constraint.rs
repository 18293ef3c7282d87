//! What a text must look like, token by token. How that is told is the business of whoever
//! implements [`Grammar`]; here it is only kept to.
//!
//! What is allowed next depends on nothing but the tokens before it, so drafts change nothing: each
//! row of a window is drawn with the set that belongs to the tokens accepted before it, and a
//! matcher never sees a token that was not drawn. So nothing ever has to be taken back.

use crate::sampling::{SamplingError, check_finite};
use std::fmt::Debug;
use std::sync::Arc;

/// A rule for texts.
pub trait Grammar: Debug + Send + Sync {
    /// A matcher at the beginning of a text.
    fn begin(&self) -> Box<dyn Matcher>;
}

/// How far a text has come in its grammar.
pub trait Matcher: Debug + Send {
    /// The tokens that may follow, those that end a text among them where it may end.
    ///
    /// # Errors
    /// In words, if that cannot be found out: the text fails.
    fn allowed(&mut self) -> Result<TokenSet, String>;

    /// Takes the next token of the text, which is one of those allowed.
    ///
    /// # Errors
    /// In words, if it cannot be taken: the text fails.
    fn push(&mut self, token: u32) -> Result<(), String>;

    /// Whether nothing may follow.
    fn is_complete(&self) -> bool;
}

/// A grammar as a rule of a text; equal to itself alone.
#[derive(Clone, Debug)]
pub struct Constraint(pub Arc<dyn Grammar>);

impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Constraint {}

/// A set of tokens: bit `t % 32` of word `t / 32` stands for token `t`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet(pub Vec<u32>);

impl TokenSet {
    /// Whether a token is in it.
    pub fn contains(&self, token: u32) -> bool {
        self.0.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Adds a token.
    pub fn insert(&mut self, token: u32) {
        let word = token as usize / 32;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (token % 32);
    }

    /// Takes a token out.
    pub fn remove(&mut self, token: u32) {
        if let Some(word) = self.0.get_mut(token as usize / 32) {
            *word &= !(1 << (token % 32));
        }
    }

    /// Makes the logits of all other tokens -inf.
    fn apply(&self, logits: &mut [f32]) {
        let words = self.0.iter().copied().chain(std::iter::repeat(0));
        for (logits, word) in logits.chunks_mut(32).zip(words) {
            for (bit, logit) in logits.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its grammar has not begun.
    Before,
    /// Its grammar says what follows.
    Within,
}

/// Keeps a text to its grammar.
#[derive(Debug)]
pub(crate) struct Guide {
    matcher: Box<dyn Matcher>,
    /// The token behind whose first occurrence comes the opening; `None` if the text begins so.
    after: Option<u32>,
    /// Tokens of the opening.
    opening: usize,
    /// Tokens behind which the grammar begins, once that is known.
    begin: Option<usize>,
    /// Tokens of the text that were looked at.
    seen: usize,
}

impl Guide {
    /// For a text whose grammar begins behind an opening of `opening` tokens.
    pub(crate) fn new(grammar: &dyn Grammar, after: Option<u32>, opening: usize) -> Self {
        let begin = if after.is_none() { Some(opening) } else { None };
        Self { matcher: grammar.begin(), after, opening, begin, seen: 0 }
    }

    /// Follows the text up to the end of `output`, which goes on where it was the last time.
    pub(crate) fn follow(&mut self, output: &[u32]) -> Result<Place, String> {
        if self.begin.is_none() {
            let new = output[self.seen..].iter();
            let found = new.zip(self.seen..).find(|(token, _)| Some(**token) == self.after);
            self.begin = found.map(|(_, at)| at + 1 + self.opening);
        }
        let begin = self.begin.filter(|begin| *begin <= output.len());
        if let Some(begin) = begin {
            for &token in &output[self.seen.max(begin)..] {
                self.matcher.push(token)?;
            }
        }
        self.seen = output.len();
        Ok(if begin.is_some() { Place::Within } else { Place::Before })
    }

    /// Whether nothing may follow `output`.
    pub(crate) fn is_complete(&mut self, output: &[u32]) -> bool {
        // What goes wrong here shows again when the next token is to be drawn.
        self.follow(output) == Ok(Place::Within) && self.matcher.is_complete()
    }

    /// Leaves the logits of those tokens that may follow `output`; before the grammar begins, of
    /// all but those that end the text.
    pub(crate) fn restrict(
        &mut self,
        logits: &mut [f32],
        output: &[u32],
        end_tokens: &[u32],
        position: usize,
    ) -> Result<(), SamplingError> {
        // What is wrong with logits must not be covered up.
        check_finite(logits, position)?;
        let failed = |what| SamplingError::Grammar { position, what };
        match self.follow(output).map_err(failed)? {
            Place::Before => {
                for &token in end_tokens {
                    logits.get_mut(token as usize).into_iter().for_each(|it| *it = f32::MIN);
                }
            }
            Place::Within => {
                self.matcher.allowed().map_err(failed)?.apply(logits);
                if !logits.iter().any(|logit| logit.is_finite()) {
                    return Err(failed("no token may follow".to_owned()));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let mut set = TokenSet::default();
        for token in [0, 31, 32, 100] {
            assert!(!set.contains(token));
            set.insert(token);
            assert!(set.contains(token) && !set.contains(token + 1) || token == 31);
        }
        set.remove(32);
        set.remove(5000);
        let mut logits = vec![1.0; 140];
        set.apply(&mut logits);
        let left: Vec<usize> = (0..140).filter(|&t| logits[t] == 1.0).collect();
        assert_eq!(left, [0, 31, 100]);
        assert!(logits.iter().all(|&x| x == 1.0 || x == f32::NEG_INFINITY));
    }
}
