//! Whoever predicts: an engine, on any backend.

use super::{Cut, Error, Side};
use engine::{Engine, Feed, Want};
use kernels::Backend;

/// Logits that are held at a time, of each side, in bytes: enough rows to keep products efficient.
const LOGITS_BYTES: usize = 64 << 20;

/// The slot that passages run in.
const SLOT: usize = 0;

/// Gives logits for the tokens of a passage.
pub trait Predictor {
    /// Logits of a position.
    fn vocab(&self) -> usize;

    /// Tokens that can be fed at once.
    fn chunk(&self) -> usize;

    /// Forgets what was fed.
    ///
    /// # Errors
    /// Those of the engine.
    fn begin(&mut self) -> Result<(), engine::Error>;

    /// Feeds the next tokens; logits `[wanted, vocab]` take the place of what `logits` held.
    ///
    /// # Errors
    /// Those of the engine.
    fn feed(
        &mut self,
        tokens: &[u32],
        want: Want,
        logits: &mut Vec<f32>,
    ) -> Result<(), engine::Error>;

    /// Tells models and settings apart, as far as they decide about logits.
    fn fingerprint(&self) -> u64;
}

impl<B: Backend> Predictor for Engine<B> {
    fn vocab(&self) -> usize {
        self.hyper_params().vocab
    }

    fn chunk(&self) -> usize {
        self.config().chunk
    }

    fn begin(&mut self) -> Result<(), engine::Error> {
        self.reset(SLOT)
    }

    fn feed(
        &mut self,
        tokens: &[u32],
        want: Want,
        logits: &mut Vec<f32>,
    ) -> Result<(), engine::Error> {
        self.forward_into(&[Feed::new(SLOT, tokens, want)], logits)
    }

    fn fingerprint(&self) -> u64 {
        Engine::fingerprint(self)
    }
}

/// A piece of a passage that is fed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// First token, in the passage.
    pub(crate) start: usize,
    /// Number of tokens.
    pub(crate) len: usize,
    pub(crate) want: Want,
}

/// How a passage is fed to those that can take `chunk` tokens at once: first what is not scored,
/// then what is, with few enough rows that their logits have room. The last token is not needed.
pub(crate) fn steps(cut: &Cut, chunk: usize, vocab: usize) -> Vec<Step> {
    let scored = cut.scored();
    let rows = (LOGITS_BYTES / size_of::<f32>() / vocab.max(1)).clamp(1, chunk.max(1));
    let pieces = |start: usize, end: usize, most: usize, want: Want| {
        let starts = (start..end).step_by(most);
        starts.map(move |start| Step { start, len: most.min(end - start), want })
    };
    let before = pieces(0, scored.start, chunk.max(1), Want::Nothing);
    before.chain(pieces(scored.start, scored.end, rows, Want::All)).collect()
}

/// Fails if a logit of a row is not finite.
pub(crate) fn check_finite(row: &[f32], side: Side, place: (usize, usize)) -> Result<(), Error> {
    let (passage, token) = (place.0 + 1, place.1 + 1);
    match row.iter().all(|logit| logit.is_finite()) {
        true => Ok(()),
        false => Err(Error::NotFinite { side, passage, token }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cover_a_passage_but_its_last_token() {
        let cut = Cut { ctx: 12, skip: 5, most: None };
        let all = |start, len| Step { start, len, want: Want::All };
        let none = |start, len| Step { start, len, want: Want::Nothing };
        assert_eq!(steps(&cut, 4, 10), [none(0, 4), none(4, 1), all(5, 4), all(9, 2)]);
        // Rows of 32 MiB: two at a time.
        let wide = steps(&Cut { skip: 0, ..cut }, 100, 8 << 20);
        assert_eq!((wide.len(), wide[5]), (6, all(10, 1)));
    }
}
