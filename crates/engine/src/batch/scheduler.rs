//! The scheduler: which requests have slots, and what the next window is made of.

use super::job::{Job, JobEvent, JobId, Live, Stage, Waiting};
use super::limits::{Limits, Refused};
use super::rounds::Rounds;
use super::totals::Totals;
use crate::answer::Outcome;
use crate::cache::{Mark, StateCache};
use crate::generate::check_prompt;
use crate::logits::{LogitRows, RowLogits};
use crate::sampling::Short;
use crate::speculation::{Drafter, Drafts, Proposer};
use crate::{Commit, Engine, Error, Event, Feed, Finish, Want};
use kernels::Backend;
use model::tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

/// Receives what happens to requests; may break off the one that an event is about.
pub type JobSink<'a> = dyn FnMut(JobId, JobEvent<'_>) -> ControlFlow<()> + 'a;

/// An engine whose slots serve a queue of requests.
pub struct Scheduler<B: Backend> {
    pub(super) engine: Engine<B>,
    pub(super) tokenizer: Tokenizer,
    pub(super) limits: Limits,
    pub(super) cache: Option<StateCache>,
    /// One per slot of the engine.
    pub(super) slots: Vec<Option<Live>>,
    /// One per slot of the engine, of use while it is free.
    pub(super) idle: Vec<Idle>,
    pub(super) queue: VecDeque<Waiting>,
    next_id: u64,
    pub(super) totals: Totals,
    logits: LogitRows,
    draft_logits: Vec<f32>,
}

/// What is known of a slot that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Who drafted last there: they know what windows cost here.
    pub(super) drafter: Option<Drafter>,
    /// Windows that had been run when it became free.
    pub(super) since: u64,
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
            cache: None,
            slots: (0..count).map(|_| None).collect(),
            idle: (0..count).map(|_| Idle::default()).collect(),
            queue: VecDeque::new(),
            next_id: 0,
            totals: Totals::default(),
            logits: LogitRows::default(),
            draft_logits: Vec::new(),
        }
    }

    /// Saves states of prompts and answers in `cache`, and goes on from what is there. Texts stay
    /// as they are.
    #[must_use]
    pub fn with_cache(mut self, cache: StateCache) -> Self {
        // Without room nothing needs to be copied.
        self.cache = Some(cache).filter(|cache| cache.budget() > 0);
        self
    }

    /// The cache, if there is one.
    pub fn cache(&self) -> Option<&StateCache> {
        self.cache.as_ref()
    }

    /// Requests that have a slot.
    pub fn live(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Requests that it takes on at most, running or waiting.
    pub fn room(&self) -> usize {
        self.slots.len().saturating_add(self.limits.queue)
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

    /// The engine and the cache, when nothing is asked of them any more.
    pub fn into_parts(self) -> (Engine<B>, Option<StateCache>) {
        (self.engine, self.cache)
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

    /// Runs one window over all requests that have a slot, after giving free slots to those that
    /// wait. What goes wrong with a request is told to it and to no other.
    pub fn step(&mut self, sink: &mut JobSink<'_>) {
        self.reap(sink);
        self.admit(sink);
        let parts = self.plan(sink);
        if !parts.is_empty() {
            self.totals.steps += 1;
            self.run(&parts, sink);
        }
    }

    /// Runs a window.
    fn run(&mut self, parts: &[Part], sink: &mut JobSink<'_>) {
        let started = Instant::now();
        let feeds: Vec<Feed<'_>> = parts.iter().map(Part::feed).collect();
        let draws = |part: &Part| self.slots[part.slot].as_ref()?.answer.draws();
        let draws: Vec<Option<Short>> = parts.iter().map(draws).collect();
        let result = self.engine.forward_rows(&feeds, &draws, &mut self.logits);
        let took = started.elapsed();
        let broken = |part: &Part| self.engine.is_broken(part.slot).unwrap_or(true);
        match result {
            Ok(()) => self.share(parts, took, sink),
            // Nothing was run, and whose fault it was shows when each goes alone.
            Err(_) if parts.len() > 1 && !parts.iter().any(broken) => {
                parts.chunks(1).for_each(|alone| self.run(alone, sink));
            }
            // What the device said is told to all: they all were in the window that failed.
            Err(Error::Kernel(error)) => {
                for Part { slot, .. } in parts {
                    self.fail(*slot, error.clone().into(), sink);
                }
            }
            Err(error) => {
                let mut error = Some(error);
                for Part { slot, .. } in parts {
                    let told = error.take().unwrap_or(Error::SlotBroken { slot: *slot });
                    self.fail(*slot, told, sink);
                }
            }
        }
    }

    /// Tokens that a request may have.
    pub(super) fn most_tokens(&self) -> usize {
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

    /// The parts of the next window: a round of every answer, then pieces of prompts. Where the
    /// window is too short for all, slots take turns, and answers leave some rows to prompts.
    fn plan(&mut self, sink: &mut JobSink<'_>) -> Vec<Part> {
        self.follow(sink);
        let (count, chunk) = (self.slots.len(), self.engine.config().chunk);
        let turn = usize::try_from(self.totals.steps % (2 * count as u64)).unwrap_or(0);
        let due = self.slots.iter().flatten().any(|live| live.prompt_done().is_some());
        // Where there is one row, answers and prompts take turns; so two steps are one turn of the
        // slots, or some would only come first when the other kind has the row.
        let kept = self.limits.prompt_rows.min(chunk / 4).max(turn % 2);
        let turn = turn / 2;
        let rows = if due { chunk - kept } else { chunk };
        let mut parts = self.answers(turn, rows, sink);
        let left = chunk - parts.iter().map(|part| part.tokens.len()).sum::<usize>();
        let most = if parts.is_empty() { left } else { left.min(self.limits.prompt_rows.max(1)) };
        self.prompts((turn, most), &mut parts);
        parts
    }

    /// The next round of the answers, in at most `rows` rows, the slots from number `turn` on
    /// first. Where rows are short, drafts are left out rather than texts.
    fn answers(&mut self, turn: usize, rows: usize, sink: &mut JobSink<'_>) -> Vec<Part> {
        let count = self.slots.len();
        let in_turn = (0..count).map(|i| (i + turn) % count);
        let answers = in_turn.filter(|slot| {
            self.slots[*slot].as_ref().is_some_and(|live| live.prompt_done().is_none())
        });
        let slots: Vec<usize> = answers.take(rows).collect();
        let (mut spare, vocab) = (rows - slots.len(), self.engine.hyper_params().vocab);
        let Self { engine, draft_logits: logits, .. } = self;
        let all = Rounds { engine, slots: &mut self.slots, logits }.propose(&slots, spare);
        let mut parts = Vec::with_capacity(slots.len());
        for (slot, proposed) in slots.into_iter().zip(all) {
            let mut proposed = match proposed {
                Ok(proposed) => proposed,
                Err(error) => {
                    self.fail(slot, error, sink);
                    continue;
                }
            };
            let Some(Live { answer, stage: Stage::Answer { drafts }, .. }) = &mut self.slots[slot]
            else {
                continue;
            };
            proposed.limit(spare, vocab);
            spare -= proposed.tokens.len();
            let mut tokens = Vec::new();
            answer.window(&proposed.tokens, &mut tokens);
            let (want, commit) = match proposed.tokens[..] {
                [] => (Want::Last, Commit::Now),
                _ => (Want::All, Commit::Deferred),
            };
            *drafts = proposed;
            parts.push(Part { slot, tokens, want, commit });
        }
        parts
    }

    /// Fills `rows` rows with pieces of prompts, shared evenly by those that have some left and do
    /// not wait; where there are fewer rows than prompts, the slots from number `turn` on get them.
    /// A piece ends where a state is to be saved.
    fn prompts(&self, (turn, mut rows): (usize, usize), parts: &mut Vec<Part>) {
        let left = |live: &Live| match live.stage {
            Stage::Prompt { done } if !live.prefill.waits => {
                let point = live.prefill.points.front().map(|(at, _)| *at);
                done..point.unwrap_or(live.answer.prompt().len())
            }
            _ => 0..0,
        };
        let mut due: Vec<(usize, Range<usize>)> = Vec::new();
        for (slot, live) in self.slots.iter().enumerate() {
            let left = live.as_ref().map_or(0..0, left);
            if !left.is_empty() {
                due.push((slot, left));
            }
        }
        let count = self.slots.len();
        due.sort_by_key(|(slot, _)| (slot + count - turn) % count);
        due.truncate(rows);
        // The shortest first: what they do not need is left for the others.
        due.sort_by_key(|(slot, left)| (left.len(), *slot));
        for (i, (slot, left)) in due.iter().enumerate() {
            let share = rows.div_ceil(due.len() - i).min(left.len());
            let Some(live) = self.slots[*slot].as_ref().filter(|_| share > 0) else { continue };
            rows -= share;
            let end = left.start + share;
            let tokens = live.answer.prompt()[left.start..end].to_vec();
            let want = if end == live.answer.prompt().len() { Want::Last } else { Want::Nothing };
            parts.push(Part { slot: *slot, tokens, want, commit: Commit::Now });
        }
    }

    /// Hands the window's logits to the requests whose parts they belong to.
    fn share(&mut self, parts: &[Part], took: Duration, sink: &mut JobSink<'_>) {
        let vocab = self.engine.hyper_params().vocab;
        let all: usize = parts.iter().map(|part| part.tokens.len()).sum();
        let mut logits = std::mem::take(&mut self.logits);
        let mut rows = logits.iter(vocab);
        for part in parts {
            let own = rows.by_ref().take(part.feed().wanted_rows()).collect();
            // A part's share of the time is what it would have to save to be worth leaving out.
            let time = took.mul_f64(part.tokens.len() as f64 / all as f64);
            let end = self.give(part, own, time, sink);
            match end {
                Ok(None) => {}
                Ok(Some(finish)) => self.finish(part.slot, finish, sink),
                Err(error) => self.fail(part.slot, error, sink),
            }
        }
        drop(rows);
        self.logits = logits;
    }

    /// Goes on with one request; why it ends, if it does.
    fn give(
        &mut self,
        part: &Part,
        rows: Vec<RowLogits<'_>>,
        time: Duration,
        sink: &mut JobSink<'_>,
    ) -> Result<Option<Finish>, Error> {
        let Self { engine, tokenizer, slots, totals, cache, .. } = self;
        let Some(live) = &mut slots[part.slot] else { return Ok(None) };
        let id = live.id;
        let mut pass_on = |event: Event<'_>| sink(id, JobEvent::Text(event));
        match &mut live.stage {
            Stage::Prompt { done } => {
                *done += part.tokens.len();
                totals.prefilled += part.tokens.len() as u64;
                let point = live.prefill.points.pop_front_if(|(at, _)| *at <= *done);
                if let (Some(cache), Some((_, mark))) = (cache, point) {
                    engine.remember(part.slot, cache, mark)?;
                }
                let event = Event::Prompt { done: *done, total: live.answer.prompt().len() };
                if pass_on(event).is_break() {
                    return Ok(Some(Finish::Cancelled));
                }
                if part.want == Want::Nothing {
                    return Ok(None);
                }
                let Some(logits) = rows.into_iter().next() else { return Ok(None) };
                live.answering = Some(Instant::now());
                live.stage = Stage::Answer { drafts: Drafts::default() };
                totals.generated += 1;
                Ok(live.answer.begin(logits, tokenizer, &mut pass_on)?)
            }
            Stage::Answer { drafts } => {
                let outcome = live.answer.round(rows.into_iter(), drafts, tokenizer, &mut pass_on);
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

    /// Saves the state at the end of a request, ends it and frees its slot.
    fn finish(&mut self, slot: usize, finish: Finish, sink: &mut JobSink<'_>) {
        if let Some(cache) = &mut self.cache {
            // The text is complete, and a state that cannot be saved is computed again.
            let _ = self.engine.remember(slot, cache, Mark::Interval);
        }
        self.end(slot, finish, sink);
    }

    /// Ends a request and frees its slot.
    pub(super) fn end(&mut self, slot: usize, finish: Finish, sink: &mut JobSink<'_>) {
        let Some(live) = self.slots[slot].take() else { return };
        let (id, summary, drafter) = live.into_parts(finish);
        self.leave(slot, Some(drafter));
        let _ = sink(id, JobEvent::Done(Box::new(summary)));
    }

    /// Ends a request that went wrong and frees its slot.
    pub(super) fn fail(&mut self, slot: usize, error: Error, sink: &mut JobSink<'_>) {
        if let Some(live) = self.slots[slot].take() {
            self.leave(slot, None);
            let _ = sink(live.id, JobEvent::Failed(error));
        }
    }

    fn leave(&mut self, slot: usize, drafter: Option<Drafter>) {
        self.totals.ended += 1;
        self.idle[slot] = Idle { drafter, since: self.totals.steps };
    }
}

fn count(totals: &mut Totals, part: &Part, outcome: &Outcome) {
    totals.generated += outcome.fed as u64;
    totals.drafted += part.tokens.len() as u64 - 1;
    totals.accepted += outcome.fed as u64 - 1;
}
