//! How a text is cut into passages.

use std::ops::Range;

/// Passages of a text and what is scored of them.
///
/// A passage is `ctx` consecutive tokens, computed from an empty state; passages follow one another
/// without overlap, and what is left at the end of the text and fills none is not used. A position
/// is scored by the token that follows it within its passage, so of a passage positions `skip` to
/// `ctx - 2` count: those before have too little context to be typical. With `skip` half of `ctx`
/// these are the passages and positions of llama.cpp's `llama-perplexity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Tokens of a passage.
    pub ctx: usize,
    /// First position that is scored.
    pub skip: usize,
    /// Passages at most.
    pub most: Option<usize>,
}

/// Why a text cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCut {
    /// No position would be scored.
    #[error(
        "of passages of {ctx} tokens whose first {skip} are not scored, nothing is left: the last \
         token has none that follows; skip fewer"
    )]
    NothingScored {
        /// Tokens of a passage.
        ctx: usize,
        /// Tokens that are not scored.
        skip: usize,
    },
    /// The text fills no passage.
    #[error(
        "the text has {tokens} tokens and a passage {ctx}; give a longer text or make passages \
         shorter"
    )]
    TextTooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of a passage.
        ctx: usize,
    },
}

impl Cut {
    /// Passages of a text of so many tokens, at least one.
    ///
    /// # Errors
    /// [`BadCut`].
    pub fn passages(&self, tokens: usize) -> Result<usize, BadCut> {
        let Self { ctx, skip, most } = *self;
        if skip.saturating_add(2) > ctx {
            return Err(BadCut::NothingScored { ctx, skip });
        }
        match (tokens / ctx).min(most.unwrap_or(usize::MAX)) {
            0 => Err(BadCut::TextTooShort { tokens, ctx }),
            passages => Ok(passages),
        }
    }

    /// Tokens of passage `n`, from 0.
    pub fn tokens(&self, n: usize) -> Range<usize> {
        n * self.ctx..(n + 1) * self.ctx
    }

    /// Positions of a passage that are scored.
    pub fn scored(&self) -> Range<usize> {
        self.skip..self.ctx - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_without_overlap_and_the_rest_left_out() {
        let cut = Cut { ctx: 512, skip: 256, most: None };
        assert_eq!(cut.passages(1300), Ok(2));
        assert_eq!((cut.tokens(1), cut.scored()), (512..1024, 256..511));
        assert_eq!(Cut { most: Some(1), ..cut }.passages(1300), Ok(1));
    }

    #[test]
    fn nothing_to_score_is_an_error() {
        let cut = |ctx, skip| Cut { ctx, skip, most: None }.passages(100);
        assert_eq!(cut(8, 6), Ok(12));
        assert_eq!(cut(8, 7), Err(BadCut::NothingScored { ctx: 8, skip: 7 }));
        assert_eq!(cut(0, 0), Err(BadCut::NothingScored { ctx: 0, skip: 0 }));
        assert_eq!(cut(101, 0), Err(BadCut::TextTooShort { tokens: 100, ctx: 101 }));
        assert!(cut(8, usize::MAX).is_err());
    }
}
