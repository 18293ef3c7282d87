//! A request from its submission to its end.

use crate::answer::Answer;
use crate::cache::Mark;
use crate::speculation::{Drafter, Drafts, SpecMode, SpecStats};
use crate::{Error, Event, Finish, Rules, SamplingParams};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Names a request for as long as the scheduler lives; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(super) u64);

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; `None` is until the end or the limit of a request.
    pub max_tokens: Option<usize>,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Strings that end the text; they are not part of it.
    pub stop: Vec<String>,
    /// What else the text keeps to, and what is told of its tokens.
    pub rules: Rules,
    /// Who drafts. Changes speed, never text.
    pub drafts: SpecMode,
    /// Positions in the prompt at which a message ends, rising: where other texts may go on from,
    /// and states are kept if there is a cache. Changes speed, never text.
    pub boundaries: Vec<usize>,
}

/// What happens to requests.
#[derive(Debug)]
pub enum JobEvent<'a> {
    /// What happens to any text that is generated.
    Text(Event<'a>),
    /// The text has ended; the last event of a request, unless it fails.
    Done(Box<JobSummary>),
    /// The request failed; its last event. Others are not affected.
    Failed(Error),
}

/// How a request went.
#[derive(Clone, Debug)]
pub struct JobSummary {
    /// Why it ended.
    pub finish: Finish,
    /// Generated tokens, the one that ended the text included.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt that were there already, in the slot or in the cache.
    pub reused: usize,
    /// Tokens of the prompt that were computed.
    pub prefilled: usize,
    /// How drafts went.
    pub speculation: SpecStats,
    /// Time in the queue.
    pub queued: Duration,
    /// Time from the slot to the first token.
    pub prompt_time: Duration,
    /// Time from the first token to the end.
    pub generate_time: Duration,
}

/// A request that waits for a slot.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: JobId,
    pub(super) job: Job,
    pub(super) since: Instant,
    /// Bytes of keys and values that it may come to.
    pub(super) bytes: u64,
}

/// A request that has a slot.
pub(super) struct Live {
    pub(super) id: JobId,
    pub(super) answer: Answer,
    pub(super) drafter: Drafter,
    pub(super) stage: Stage,
    pub(super) prefill: Prefill,
    pub(super) bytes: u64,
    pub(super) queued: Duration,
    /// When it got its slot, and its first token.
    pub(super) admitted: Instant,
    pub(super) answering: Option<Instant>,
    pub(super) cancelled: bool,
}

/// How far a live request is.
#[derive(Debug)]
pub(super) enum Stage {
    /// So many tokens of the prompt are computed.
    Prompt { done: usize },
    /// Tokens are drawn; the drafts of the window that is being run.
    Answer { drafts: Drafts },
}

/// What is special about the prompt of a live request.
#[derive(Debug, Default)]
pub(super) struct Prefill {
    /// Tokens that were there already.
    pub(super) reused: usize,
    /// Where its state is still to be saved, rising.
    pub(super) points: VecDeque<(usize, Mark)>,
    /// Whether it waits for another prompt that begins alike.
    pub(super) waits: bool,
}

impl Live {
    /// Tokens of the prompt that are done, while not all are.
    pub(super) fn prompt_done(&self) -> Option<usize> {
        match self.stage {
            Stage::Prompt { done } => Some(done),
            Stage::Answer { .. } => None,
        }
    }

    /// Whether nothing of the prompt was computed here yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.prompt_done() == Some(self.prefill.reused)
    }

    /// Ends the request: its name, how it went, and who drafted.
    pub(super) fn into_parts(self, finish: Finish) -> (JobId, JobSummary, Drafter) {
        let now = Instant::now();
        let answering = self.answering.unwrap_or(now);
        let reused = self.prefill.reused;
        let done = self.prompt_done().unwrap_or(self.answer.prompt().len());
        let (tokens, speculation) = self.answer.into_parts();
        let summary = JobSummary {
            finish,
            tokens,
            reused,
            prefilled: done - reused,
            speculation,
            queued: self.queued,
            prompt_time: answering - self.admitted,
            generate_time: now - answering,
        };
        (self.id, summary, self.drafter)
    }
}
