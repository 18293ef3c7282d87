//! Who guesses what comes next.

use super::round::{Round, Source};
use crate::{Engine, Error, SamplingParams};
use kernels::Backend;
use std::time::Duration;

/// A sequence that drafts are wanted for.
#[derive(Debug)]
pub struct Ask<'a, B: Backend> {
    /// The engine that runs it.
    pub engine: &'a mut Engine<B>,
    /// Its slot.
    pub slot: usize,
    /// What was given.
    pub prompt: &'a [u32],
    /// What was generated since; the last token was drawn and not fed yet. What a proposer appends
    /// while it works is taken off again.
    pub output: &'a mut Vec<u32>,
    /// How the sequence's tokens are drawn.
    pub sampling: &'a SamplingParams,
    /// Most drafts that make sense, by token limit and context.
    pub room: usize,
}

/// Guesses at the tokens that follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drafts {
    /// Where they came from.
    pub source: Source,
    /// The drafts, in order.
    pub tokens: Vec<u32>,
    /// Drafts behind those that were made and are not worth a row.
    pub left_out: Vec<u32>,
    /// As in [`Round::confidences`].
    pub confidences: Vec<f32>,
    /// As in [`Round::matched`].
    pub matched: usize,
    /// As in [`Round::draft_times`].
    pub times: Vec<Duration>,
}

impl Drafts {
    /// Drops what no window can take: drafts beyond `room`, and those from the first one on that is
    /// no token of the vocabulary.
    pub(crate) fn limit(&mut self, room: usize, vocab: usize) {
        let usable = self.tokens.iter().take(room).take_while(|&&token| (token as usize) < vocab);
        let count = usable.count();
        if count < self.tokens.len() {
            self.tokens.truncate(count);
            self.left_out.clear();
        }
    }
}

/// Guesses tokens. Whatever it guesses, the text stays the same: only the time it takes depends on
/// it.
pub trait Proposer<B: Backend> {
    /// Another text begins.
    fn begin(&mut self) {}

    /// Drafts for the next round, at most `ask.room`; none is an answer, too.
    ///
    /// # Errors
    /// Faults of the device.
    fn propose(&mut self, ask: Ask<'_, B>) -> Result<Drafts, Error>;

    /// Tells it how the round went, plain ones included. `drawn` are the round's tokens: the
    /// accepted drafts and the one after them. May give a message for the user.
    fn observe(&mut self, round: &Round<'_>, drawn: &[u32]) -> Option<String> {
        let _ = (round, drawn);
        None
    }
}

/// Guesses nothing: plain decoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDrafts;

impl<B: Backend> Proposer<B> for NoDrafts {
    fn propose(&mut self, _: Ask<'_, B>) -> Result<Drafts, Error> {
        Ok(Drafts::default())
    }
}
