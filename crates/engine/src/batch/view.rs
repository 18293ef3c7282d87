//! What goes on in the slots, for those who watch.

use super::job::{JobId, Live, Stage};
use super::scheduler::Scheduler;
use kernels::Backend;
use std::time::Duration;

/// A slot as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotView {
    /// Nobody uses it.
    Free {
        /// Tokens of the text that it still holds.
        held: usize,
    },
    /// A prompt is being computed.
    Prompt {
        /// Whose.
        job: JobId,
        /// Tokens done, those that were there already included.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Time since the request got its slot.
        age: Duration,
    },
    /// An answer is being drawn.
    Answer {
        /// Whose.
        job: JobId,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens drawn.
        drawn: usize,
        /// Time since the first of them.
        since: Duration,
        /// Time since the request got its slot.
        age: Duration,
    },
}

impl<B: Backend> Scheduler<B> {
    /// All slots, in their order.
    pub fn slots(&self) -> impl Iterator<Item = SlotView> + '_ {
        self.slots.iter().enumerate().map(|(slot, live)| match live {
            Some(live) => live.view(),
            None => SlotView::Free { held: self.engine.history(slot).map_or(0, <[u32]>::len) },
        })
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &crate::Engine<B> {
        &self.engine
    }

    /// Tokens that a request may have, prompt and answer together.
    pub fn request_tokens(&self) -> usize {
        self.most_tokens()
    }
}

impl Live {
    fn view(&self) -> SlotView {
        let (job, total, age) = (self.id, self.answer.prompt().len(), self.admitted.elapsed());
        match self.stage {
            Stage::Prompt { done } => SlotView::Prompt { job, done, total, age },
            Stage::Answer { .. } => {
                let since = self.answering.map(|at| at.elapsed()).unwrap_or_default();
                SlotView::Answer { job, prompt: total, drawn: self.answer.drawn(), since, age }
            }
        }
    }
}
