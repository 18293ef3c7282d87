//! The scheduler: which requests have slots, and what the next window is made of.

use super::job::{Job, JobEvent, JobId, Live, Stage, Waiting};
use super::limits::{Limits, Refused};
use crate::answer::{Answer, Outcome};
use crate::generate::check_prompt;
use crate::speculation::{Drafter, Drafts, Proposer};
use crate::{Commit, Engine, Error, Event, Feed, Finish, Request, Want};
use kernels::Backend;
use model::tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

/// Receives what happens to requests; may break off the one that an event is about.
pub type JobSink<'a> = dyn FnMut(JobId, JobEvent<'_>) -> ControlFlow<()> + 'a;

/// Counts since the scheduler was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that ended, however they did.
    pub ended: u64,
    /// Windows.
    pub steps: u64,
    /// Tokens of prompts that were computed.
    pub prefilled: u64,
    /// Tokens drawn.
    pub generated: u64,
    /// Drafts verified, and of those accepted.
    pub drafted: u64,
    /// See [`Totals::drafted`].
    pub accepted: u64,
}

/// An engine whose slots serve a queue of requests.
pub struct Scheduler<B: Backend> {
    engine: Engine<B>,
    tokenizer: Tokenizer,
    limits: Limits,
    /// One per slot of the engine.
    slots: Vec<Option<Live>>,
    /// Who drafted last on each slot that is free: they know what windows cost here.
    drafters: Vec<Option<Drafter>>,
    queue: VecDeque<Waiting>,
    next_id: u64,
    totals: Totals,
    logits: Vec<f32>,
}

/// A slot's part of a window.
struct Part {
    slot: usize,
    tokens: Vec<u32>,
    want: Want,
    commit: Commit,
}

impl Part {
    fn feed(&self) -> Feed<'_> {
        let Self { slot, ref tokens, want, commit } = *self;
        Feed { slot, tokens, want, commit }
    }

    /// Rows of logits that it gets.
    fn rows(&self) -> usize {
        match self.want {
            Want::Nothing => 0,
            Want::Last => 1,
            Want::All => self.tokens.len(),
        }
    }
}

impl<B: Backend> std::fmt::Debug for Scheduler<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("engine", &self.engine)
            .field("live", &self.live())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Scheduler<B> {
    /// Serves requests on the slots of `engine`.
    pub fn new(engine: Engine<B>, tokenizer: Tokenizer, limits: Limits) -> Self {
        let count = engine.config().slots;
        Self {
            engine,
            tokenizer,
            limits,
            slots: (0..count).map(|_| None).collect(),
            drafters: (0..count).map(|_| None).collect(),
            queue: VecDeque::new(),
            next_id: 0,
            totals: Totals::default(),
            logits: Vec::new(),
        }
    }

    /// Requests that have a slot.
    pub fn live(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.live() + self.waiting() == 0
    }

    /// Counts since the scheduler was made.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The engine, when nothing is asked of it any more.
    pub fn into_engine(self) -> Engine<B> {
        self.engine
    }

    /// Takes a request on; it gets a slot when its turn comes.
    ///
    /// # Errors
    /// [`Refused`], before any work.
    pub fn submit(&mut self, job: Job) -> Result<JobId, Refused> {
        let checked = self.check(&job);
        self.totals.refused += u64::from(checked.is_err());
        let bytes = checked?;
        let id = JobId(self.next_id);
        self.next_id += 1;
        self.queue.push_back(Waiting { id, job, since: Instant::now(), bytes });
        Ok(id)
    }

    /// Ends a request, wherever it is. One that waits is gone at once and gets no event; a live one
    /// gets [`JobEvent::Done`] when the next step begins, which frees its slot. False if there is
    /// none of this name any more.
    pub fn cancel(&mut self, id: JobId) -> bool {
        if let Some(live) = self.slots.iter_mut().flatten().find(|live| live.id == id) {
            live.cancelled = true;
            return true;
        }
        let before = self.queue.len();
        self.queue.retain(|waiting| waiting.id != id);
        let found = self.queue.len() < before;
        self.totals.ended += u64::from(found);
        found
    }

    /// Runs one window over all requests that have a slot, after giving slots that are free to those
    /// that wait. What goes wrong with a request is told to it and to no other.
    pub fn step(&mut self, sink: &mut JobSink<'_>) {
        self.reap(sink);
        self.admit(sink);
        let parts = self.plan(sink);
        if parts.is_empty() {
            return;
        }
        let started = Instant::now();
        let feeds: Vec<Feed<'_>> = parts.iter().map(Part::feed).collect();
        let result = self.engine.forward_into(&feeds, &mut self.logits);
        let took = started.elapsed();
        self.totals.steps += 1;
        match result {
            Ok(()) => self.share(&parts, took, sink),
            // The error itself goes to the first one: they all were in the window that failed.
            Err(error) => {
                let mut error = Some(error);
                for Part { slot, .. } in &parts {
                    let told = error.take().unwrap_or(Error::SlotBroken { slot: *slot });
                    self.fail(*slot, told, sink);
                }
            }
        }
    }

    /// Tokens that a request may have.
    fn most_tokens(&self) -> usize {
        self.limits.request_tokens.min(self.engine.config().context)
    }

    /// Checks a request; the bytes of keys and values that it may come to.
    fn check(&self, job: &Job) -> Result<u64, Refused> {
        let (vocab, limit) = (self.engine.hyper_params().vocab, self.most_tokens());
        job.sampling.validate(vocab)?;
        check_prompt(&job.prompt, vocab, limit).map_err(|error| match error {
            Error::TokenOutOfRange { token, vocab } => Refused::TokenOutOfRange { token, vocab },
            Error::ContextFull { tokens, .. } => Refused::PromptTooLong { tokens, limit },
            _ => Refused::NoTokens,
        })?;
        let answer = job.max_tokens.unwrap_or(usize::MAX);
        let tokens = job.prompt.len().saturating_add(answer).min(limit);
        let bytes = tokens as u64 * self.engine.cache_bytes_per_token();
        if let Some(limit) = self.limits.cache_bytes.filter(|&limit| bytes > limit) {
            return Err(Refused::TooMuchMemory { bytes, limit });
        }
        let limit = self.limits.queue;
        // A free slot is as good as a place in the queue.
        let free = self.slots.len() - self.live();
        if self.queue.len() >= limit.saturating_add(free) {
            return Err(Refused::QueueFull { limit });
        }
        Ok(bytes)
    }

    /// Frees the slots of cancelled requests.
    fn reap(&mut self, sink: &mut JobSink<'_>) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(|live| live.cancelled) {
                self.finish(slot, Finish::Cancelled, sink);
            }
        }
    }

    /// Gives free slots to those who wait, in their order.
    fn admit(&mut self, sink: &mut JobSink<'_>) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                continue;
            }
            let held: u64 = self.slots.iter().flatten().map(|live| live.bytes).sum();
            let fits = |next: &Waiting| {
                self.limits.cache_bytes.is_none_or(|limit| held + next.bytes <= limit)
            };
            // Nobody overtakes the first: small requests must not starve a large one.
            if !self.queue.front().is_some_and(fits) {
                return;
            }
            let Some(Waiting { id, job, since, bytes }) = self.queue.pop_front() else { return };
            let admitted = Instant::now();
            let request = Request {
                prompt: &job.prompt,
                max_tokens: job.max_tokens,
                sampling: job.sampling,
                stop: job.stop,
            };
            let known = self.drafters[slot].take().filter(|known| known.mode() == job.drafts);
            let mut drafter = known.unwrap_or_else(|| Drafter::new(job.drafts, &self.engine));
            Proposer::<B>::begin(&mut drafter);
            let live = Live {
                id,
                answer: Answer::new(&request, &self.tokenizer, self.most_tokens()),
                drafter,
                stage: Stage::Prompt { done: 0 },
                bytes,
                queued: admitted - since,
                admitted,
                answering: None,
                cancelled: false,
            };
            self.slots[slot] = Some(live);
            if let Err(error) = self.engine.reset(slot) {
                self.fail(slot, error, sink);
            } else if job.max_tokens == Some(0) {
                self.finish(slot, Finish::Length, sink);
            }
        }
    }

    /// The parts of the next window: a round of every answer, then pieces of prompts. Where the
    /// window is too short for all, slots take turns, and answers leave some rows to prompts.
    fn plan(&mut self, sink: &mut JobSink<'_>) -> Vec<Part> {
        let mut parts = Vec::new();
        let (count, chunk) = (self.slots.len(), self.engine.config().chunk);
        let turn = usize::try_from(self.totals.steps % (2 * count as u64)).unwrap_or(0);
        let is_prompt = |live: &Live| matches!(live.stage, Stage::Prompt { .. });
        let due = self.slots.iter().flatten().any(is_prompt);
        let kept = self.limits.prompt_rows.min(chunk / 4).max(turn % 2);
        let mut rows = if due { chunk - kept } else { chunk };
        for slot in (0..count).map(|i| (i + turn) % count) {
            match self.round(slot, rows) {
                Ok(Some(part)) => {
                    rows -= part.tokens.len();
                    parts.push(part);
                }
                Ok(None) => {}
                Err(error) => self.fail(slot, error, sink),
            }
        }
        let left = chunk - parts.iter().map(|part| part.tokens.len()).sum::<usize>();
        let most = if parts.is_empty() { left } else { left.min(self.limits.prompt_rows.max(1)) };
        self.prompts(most, &mut parts);
        parts
    }

    /// The next round of the answer on `slot`, if there is one and at least a row for it.
    fn round(&mut self, slot: usize, rows: usize) -> Result<Option<Part>, Error> {
        let Some(Live { answer, drafter, stage: Stage::Answer { drafts }, .. }) =
            &mut self.slots[slot]
        else {
            return Ok(None);
        };
        if rows == 0 {
            return Ok(None);
        }
        *drafts = answer.propose(&mut self.engine, slot, drafter)?;
        // Where the window is short of rows, drafts are left out rather than texts.
        drafts.tokens.truncate(rows - 1);
        let mut tokens = Vec::new();
        answer.window(&drafts.tokens, &mut tokens);
        let (want, commit) = match drafts.tokens[..] {
            [] => (Want::Last, Commit::Now),
            _ => (Want::All, Commit::Deferred),
        };
        Ok(Some(Part { slot, tokens, want, commit }))
    }

    /// Fills `rows` rows with pieces of prompts, shared evenly by those that have some left.
    fn prompts(&self, mut rows: usize, parts: &mut Vec<Part>) {
        let left = |live: &Live| match live.stage {
            Stage::Prompt { done } => done..live.answer.prompt().len(),
            Stage::Answer { .. } => 0..0,
        };
        let mut due: Vec<(usize, Range<usize>)> = Vec::new();
        for (slot, live) in self.slots.iter().enumerate() {
            let left = live.as_ref().map_or(0..0, left);
            if !left.is_empty() {
                due.push((slot, left));
            }
        }
        // The shortest first: what they do not need is left for the others.
        due.sort_by_key(|(slot, left)| (left.len(), *slot));
        for (i, (slot, left)) in due.iter().enumerate() {
            let share = rows.div_ceil(due.len() - i).min(left.len());
            let Some(live) = self.slots[*slot].as_ref().filter(|_| share > 0) else { continue };
            rows -= share;
            let tokens = live.answer.prompt()[left.start..left.start + share].to_vec();
            let want = if share == left.len() { Want::Last } else { Want::Nothing };
            parts.push(Part { slot: *slot, tokens, want, commit: Commit::Now });
        }
    }

    /// Hands the window's logits to the requests whose parts they belong to.
    fn share(&mut self, parts: &[Part], took: Duration, sink: &mut JobSink<'_>) {
        let vocab = self.engine.hyper_params().vocab;
        let all: usize = parts.iter().map(|part| part.tokens.len()).sum();
        let mut logits = std::mem::take(&mut self.logits);
        let mut rest = &mut logits[..];
        for part in parts {
            let (own, others) = rest.split_at_mut(part.rows() * vocab);
            rest = others;
            // A part's share of the time is what it would have to save to be worth leaving out.
            let time = took.mul_f64(part.tokens.len() as f64 / all as f64);
            let end = self.give(part, own, time, sink);
            match end {
                Ok(None) => {}
                Ok(Some(finish)) => self.finish(part.slot, finish, sink),
                Err(error) => self.fail(part.slot, error, sink),
            }
        }
        self.logits = logits;
    }

    /// Goes on with one request; why it ends, if it does.
    fn give(
        &mut self,
        part: &Part,
        logits: &mut [f32],
        time: Duration,
        sink: &mut JobSink<'_>,
    ) -> Result<Option<Finish>, Error> {
        let Self { engine, tokenizer, slots, totals, .. } = self;
        let Some(live) = &mut slots[part.slot] else { return Ok(None) };
        let id = live.id;
        let mut pass_on = |event: Event<'_>| sink(id, JobEvent::Text(event));
        match &mut live.stage {
            Stage::Prompt { done } => {
                *done += part.tokens.len();
                totals.prefilled += part.tokens.len() as u64;
                let event = Event::Prompt { done: *done, total: live.answer.prompt().len() };
                if pass_on(event).is_break() {
                    return Ok(Some(Finish::Cancelled));
                }
                if part.want == Want::Nothing {
                    return Ok(None);
                }
                live.answering = Some(Instant::now());
                live.stage = Stage::Answer { drafts: Drafts::default() };
                totals.generated += 1;
                Ok(live.answer.begin(logits, tokenizer, &mut pass_on)?)
            }
            Stage::Answer { drafts } => {
                let rows = logits.chunks_exact_mut(engine.hyper_params().vocab);
                let outcome = live.answer.round(rows, drafts, tokenizer, &mut pass_on);
                if part.commit == Commit::Deferred {
                    engine.decide(part.slot, outcome.fed)?;
                }
                if let Some(error) = outcome.error {
                    return Err(error.into());
                }
                count(totals, part, &outcome);
                let proposer: &mut dyn Proposer<B> = &mut live.drafter;
                let told = live.answer.report(drafts, (&outcome, time), proposer, &mut pass_on);
                Ok(outcome.end.or(told))
            }
        }
    }

    /// Ends a request and frees its slot.
    fn finish(&mut self, slot: usize, finish: Finish, sink: &mut JobSink<'_>) {
        if let Some(live) = self.slots[slot].take() {
            self.totals.ended += 1;
            let (id, summary, drafter) = live.into_parts(finish);
            self.drafters[slot] = Some(drafter);
            let _ = sink(id, JobEvent::Done(Box::new(summary)));
        }
    }

    /// Ends a request that went wrong and frees its slot.
    fn fail(&mut self, slot: usize, error: Error, sink: &mut JobSink<'_>) {
        if let Some(live) = self.slots[slot].take() {
            self.totals.ended += 1;
            let _ = sink(live.id, JobEvent::Failed(error));
        }
    }
}

fn count(totals: &mut Totals, part: &Part, outcome: &Outcome) {
    totals.generated += outcome.fed as u64;
    totals.drafted += part.tokens.len() as u64 - 1;
    totals.accepted += outcome.fed as u64 - 1;
}
