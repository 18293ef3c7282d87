//! Asking: rounds in which every number of requests has its turn with every mode, then the turns
//! of a conversation.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use engine::batch::{Job, JobEvent, JobId, JobSummary, Limits, Scheduler};
use engine::cache::StateCache;
use engine::speculation::{SpecMode, SpecStats};
use engine::{Engine, TakenBlock};
use kernels::Backend;

use super::Results;
use super::plan::{FollowUp, RequestPlan};
use crate::args::uses_block;
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Show, Unit};

/// Bytes of the cache between two turns.
const CACHE: usize = 4 << 30;

/// So many requests at once, in a mode.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) count: usize,
    pub(super) mode: SpecMode,
    /// Of each round that counts: tokens of all answers per second, prompts included.
    pub(super) speeds: Vec<f64>,
    /// Seconds from asking to a request's first token, the mean of all.
    pub(super) first_token: Vec<f64>,
    pub(super) stats: SpecStats,
}

/// A turn of a conversation.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) name: &'static str,
    pub(super) reused: usize,
    pub(super) prefilled: usize,
    /// Time from asking to the first token, of each round that counts.
    pub(super) first_token: Vec<Duration>,
}

/// Runs everything.
///
/// # Errors
/// [`Error::Engine`]; [`Error::TextChanged`]; [`Error::Interrupted`].
pub(super) fn run<B: Backend>(
    engine: Engine<B>,
    plan: &RequestPlan,
    show: Show,
) -> Result<Results, Error> {
    let mut asker = Asker { engine: Some(engine), plan, aside: None };
    let mut results = Results { requests: asker.requests(show)?, turns: Vec::new() };
    if let Some(follow_up) = &plan.follow_up {
        results.turns = asker.turns(follow_up, show)?;
    }
    Ok(results)
}

struct Asker<'a, B: Backend> {
    /// Lent to a scheduler while something is asked.
    engine: Option<Engine<B>>,
    plan: &'a RequestPlan,
    /// The drafting block while a mode does not use it: it would cost time.
    aside: Option<TakenBlock<B>>,
}

/// What came of some requests, in their order.
struct Asked {
    summaries: Vec<JobSummary>,
    took: Duration,
}

impl<B: Backend> Asker<'_, B> {
    fn requests(&mut self, show: Show) -> Result<Vec<Answered>, Error> {
        let plan = self.plan;
        let of = |&count: &usize| plan.modes.iter().map(move |&mode| (count, mode));
        let empty = |(count, mode)| {
            let (speeds, first_token) = (Vec::new(), Vec::new());
            Answered { count, mode, speeds, first_token, stats: SpecStats::default() }
        };
        let mut all: Vec<Answered> = plan.counts.iter().flat_map(of).map(empty).collect();
        if all.is_empty() {
            return Ok(all);
        }
        let total = (plan.repetitions * all.len() + plan.jobs.len()) as u64;
        let mut progress = Progress::new(show, "requests", Unit::Runs);
        // What each says alone; a round of its own that does not count.
        let mut alone = Vec::with_capacity(plan.jobs.len());
        for job in &plan.jobs {
            alone.extend(self.ask(std::slice::from_ref(job), SpecMode::Off, None)?.0.summaries);
            progress.set(alone.len() as u64, total);
        }
        let mut done = alone.len() as u64;
        for _ in 0..plan.repetitions {
            for answered in &mut all {
                let jobs = &plan.jobs[..answered.count];
                let (asked, _) = self.ask(jobs, answered.mode, None)?;
                take(answered, &alone, &asked)?;
                done += 1;
                progress.set(done, total);
            }
        }
        Ok(all)
    }

    /// A prompt, and a question behind its answer: alone, in the slot that holds the answer, and
    /// from the cache after somebody else had the slot.
    fn turns(&mut self, follow_up: &FollowUp, show: Show) -> Result<Vec<Turn>, Error> {
        let FollowUp { first, question } = follow_up;
        let name = [
            "prompt",
            "question, nothing kept",
            "question, in its slot",
            "question, from the cache",
        ];
        let mut turns =
            name.map(|name| Turn { name, reused: 0, prefilled: 0, first_token: Vec::new() });
        let mut progress = Progress::new(show, "turns", Unit::Runs);
        let total = (4 * self.plan.repetitions) as u64;
        let mode = SpecMode::Off;
        let other = Job { prompt: question.clone(), max_tokens: Some(1), ..Job::default() };
        for round in 0..self.plan.repetitions {
            let mut note = |turn: usize, asked: &Asked| {
                let summary = &asked.summaries[0];
                (turns[turn].reused, turns[turn].prefilled) = (summary.reused, summary.prefilled);
                turns[turn].first_token.push(summary.queued + summary.prompt_time);
                progress.set((4 * round + turn + 1) as u64, total);
            };
            self.forget()?;
            let first = std::slice::from_ref(first);
            let (cold, _) = self.ask(first, mode, None)?;
            note(0, &cold);
            let prompt = [&first[0].prompt[..], &cold.summaries[0].tokens, question].concat();
            let next = [Job { prompt, ..first[0].clone() }];
            let (in_slot, _) = self.ask(&next, mode, None)?;
            note(2, &in_slot);
            self.forget()?;
            let (_, cache) = self.ask(first, mode, Some(StateCache::for_states(CACHE)))?;
            let (_, cache) = self.ask(std::slice::from_ref(&other), mode, cache)?;
            let (cached, _) = self.ask(&next, mode, cache)?;
            note(3, &cached);
            self.forget()?;
            let (alone, _) = self.ask(&next, mode, None)?;
            note(1, &alone);
            for asked in [in_slot, cached] {
                same("question", mode, &alone.summaries[0].tokens, &asked.summaries[0].tokens)?;
            }
        }
        Ok(turns.into())
    }

    /// Makes every slot a fresh sequence.
    fn forget(&mut self) -> Result<(), Error> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        (0..engine.config().slots).try_for_each(|slot| engine.reset(slot))?;
        Ok(())
    }

    /// Answers these at once.
    fn ask(
        &mut self,
        jobs: &[Job],
        mode: SpecMode,
        cache: Option<StateCache>,
    ) -> Result<(Asked, Option<StateCache>), Error> {
        let Some(mut engine) = self.engine.take() else { return Err(Error::Interrupted) };
        match (uses_block(mode), self.aside.take()) {
            (true, Some(block)) => engine.put_mtp(block)?,
            (true, None) => {}
            (false, Some(block)) => self.aside = Some(block),
            (false, None) => self.aside = engine.take_mtp(),
        }
        let limits = Limits { queue: jobs.len(), ..Limits::default() };
        let mut scheduler = Scheduler::new(engine, self.plan.tokenizer.clone(), limits);
        if let Some(cache) = cache {
            scheduler = scheduler.with_cache(cache);
        }
        let asked = answer(&mut scheduler, jobs, mode);
        let (engine, cache) = scheduler.into_parts();
        self.engine = Some(engine);
        Ok((asked?, cache))
    }
}

/// Runs the scheduler until all are answered.
fn answer<B: Backend>(
    scheduler: &mut Scheduler<B>,
    jobs: &[Job],
    mode: SpecMode,
) -> Result<Asked, Error> {
    let started = Instant::now();
    let mut places: HashMap<JobId, usize> = HashMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let job = Job { drafts: mode, ..job.clone() };
        let id = scheduler.submit(job).map_err(|refused| Error::Refused(refused.to_string()))?;
        places.insert(id, place);
    }
    let mut summaries: Vec<Option<JobSummary>> = jobs.iter().map(|_| None).collect();
    let mut failed = None;
    while !scheduler.is_idle() {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        scheduler.step(&mut |id, event| {
            match event {
                JobEvent::Text(_) => {}
                JobEvent::Done(summary) => summaries[places[&id]] = Some(*summary),
                JobEvent::Failed(error) => failed = Some(error),
            }
            ControlFlow::Continue(())
        });
    }
    let took = started.elapsed();
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Asked { summaries: summaries.into_iter().flatten().collect(), took }),
    }
}

/// Holds answers against those given alone, and counts them.
fn take(answered: &mut Answered, alone: &[JobSummary], asked: &Asked) -> Result<(), Error> {
    let count = asked.summaries.len() as f64;
    let (mut tokens, mut waited) = (0, 0.0);
    for (i, (summary, alone)) in asked.summaries.iter().zip(alone).enumerate() {
        same(&format!("request {}", i + 1), answered.mode, &alone.tokens, &summary.tokens)?;
        tokens += summary.tokens.len();
        waited += (summary.queued + summary.prompt_time).as_secs_f64();
        answered.stats.merge(&summary.speculation);
    }
    answered.speeds.push(tokens as f64 / asked.took.as_secs_f64());
    answered.first_token.push(waited / count);
    Ok(())
}

fn same(name: &str, mode: SpecMode, expected: &[u32], found: &[u32]) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    let pairs = || expected.iter().zip(found);
    let at = pairs().position(|(a, b)| a != b).unwrap_or(pairs().count()) + 1;
    Err(Error::TextChanged { name: name.to_owned(), mode, reference: SpecMode::Off, at })
}
