//! Hours of use in short: requests join, are broken off, go on from one another and are restored,
//! with budgets that are always too small, and whatever they say is what they say alone.
//!
//! `proptest` makes up what happens and shrinks what goes wrong. The model that it is held against
//! is small: what each request says alone, and how many there are.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]
#![allow(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::counting;
use common::jobs::*;
use cpu::Cpu;
use engine::batch::{Job, JobId, Limits, Refused, Scheduler, Totals};
use engine::cache::StateCache;
use engine::{Finish, SamplingParams};
use model::tokenizer::{SpecialTokens, Tokenizer};
use proptest::prelude::*;
use proptest::test_runner::{TestRng, TestRunner};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Longest answer.
const ANSWER: usize = 8;

/// Something that happens.
#[derive(Clone, Debug)]
enum Op {
    /// A request: a text of its own, or one that goes on from an answer that was given.
    Submit { from: Option<usize>, text: usize, setting: usize, mode: usize, tokens: usize },
    /// One of all requests is broken off, also one that has ended.
    Cancel(usize),
    /// Windows.
    Steps(usize),
    /// Everything is broken off, and the engine goes on with or without the cache.
    Restart { keep_cache: bool },
}

/// The sizes of a machine.
#[derive(Clone, Debug)]
struct Sizes {
    slots: usize,
    chunk: usize,
    queue: usize,
    prompt_rows: usize,
    /// Bytes of the cache.
    budget: usize,
    /// Tokens that all live requests may come to.
    tokens: u64,
}

fn an_op() -> impl Strategy<Value = Op> {
    let submit = (
        proptest::option::weighted(0.6, any::<usize>()),
        0..4usize,
        0..3usize,
        0..4usize,
        1..=ANSWER,
    )
        .prop_map(|(from, text, setting, mode, tokens)| Op::Submit {
            from,
            text,
            setting,
            mode,
            tokens,
        });
    prop_oneof![
        6 => submit,
        2 => any::<usize>().prop_map(Op::Cancel),
        8 => (1..12usize).prop_map(Op::Steps),
        1 => any::<bool>().prop_map(|keep_cache| Op::Restart { keep_cache }),
    ]
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let chunk = prop_oneof![Just(3), Just(9), Just(16), Just(48)];
    // Nothing, less than a state, a few states, many.
    let budget = prop_oneof![Just(0), Just(200_000), Just(3_000_000), Just(20_000_000)];
    (1..6usize, chunk, 0..5usize, 0..20usize, budget, 250..800u64).prop_map(
        |(slots, chunk, queue, prompt_rows, budget, tokens)| Sizes {
            slots,
            chunk,
            queue,
            prompt_rows,
            budget,
            tokens,
        },
    )
}

/// The settings number `n`.
fn setting(n: usize) -> SamplingParams {
    SamplingParams {
        temperature: [0.0, 0.8, 1.2][n],
        seed: n as u64,
        frequency_penalty: [0.0, 0.3, 0.0][n],
        ..SamplingParams::default()
    }
}

/// Beginnings; three of them have much in common.
fn beginning(tokenizer: &Tokenizer, n: usize) -> Vec<u32> {
    let common = "There was a small village by the sea, and every day ".repeat(6);
    let text = match n {
        0 => "The cat".to_owned(),
        1 => format!("{common}the fishermen sang."),
        2 => format!("{common}it rained."),
        _ => common,
    };
    tokenizer.encode(&text, SpecialTokens::AsText).unwrap()
}

fn follow_up(tokenizer: &Tokenizer, n: usize) -> Vec<u32> {
    let text =
        [" And", " But the next morning", " \"No!\" she said.", " Then they all went home again."];
    tokenizer.encode(text[n], SpecialTokens::AsText).unwrap()
}

/// What a prompt is answered with at a setting, alone; the same few come up again and again.
fn alone(prompt: &[u32], number: usize) -> Vec<u32> {
    type Answers = HashMap<(Vec<u32>, usize), Vec<u32>>;
    static KNOWN: Mutex<Option<Answers>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let key = (prompt.to_vec(), number);
    known
        .entry(key)
        .or_insert_with(|| {
            let prompt = prompt.to_vec();
            let job = Job {
                prompt,
                max_tokens: Some(ANSWER),
                sampling: setting(number),
                ..Job::default()
            };
            solo(&[job]).remove(0).0
        })
        .clone()
}

/// A request that was taken on.
struct Taken {
    id: JobId,
    prompt: Vec<u32>,
    setting: usize,
    tokens: usize,
}

/// The machine, and what is known of it.
struct World {
    scheduler: Scheduler<Cpu>,
    limits: Limits,
    budget: usize,
    /// Bytes of a token in the caches.
    per_token: u64,
    /// Requests since the last restart.
    taken: Vec<Taken>,
    /// Requests before it.
    before: usize,
    log: Log,
    refused: u64,
}

impl World {
    fn new(sizes: &Sizes) -> Self {
        let (engine, tokenizer) = sample(sizes.slots, sizes.chunk);
        let per_token = engine.cache_bytes_per_token();
        let limits = Limits {
            queue: sizes.queue,
            request_tokens: 230,
            cache_bytes: Some(sizes.tokens * per_token),
            prompt_rows: sizes.prompt_rows,
        };
        let cache = StateCache::for_states(sizes.budget);
        let scheduler = Scheduler::new(engine, tokenizer, limits).with_cache(cache);
        let (budget, taken, log) = (sizes.budget, Vec::new(), Log::default());
        Self { scheduler, limits, budget, per_token, taken, before: 0, log, refused: 0 }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Submit { from, text, setting, mode, tokens } => {
                self.submit((from, text, setting), (mode, tokens));
            }
            Op::Cancel(which) if !self.taken.is_empty() => {
                let id = self.taken[which % self.taken.len()].id;
                self.scheduler.cancel(id);
            }
            Op::Cancel(_) => {}
            Op::Steps(count) => (0..count).for_each(|_| self.log.step(&mut self.scheduler)),
            Op::Restart { keep_cache } => self.restart(keep_cache),
        }
        let cache = self.scheduler.cache().map_or(0, StateCache::bytes);
        assert!(cache <= self.budget, "{cache} of {} bytes", self.budget);
        assert!(self.scheduler.live() + self.scheduler.waiting() <= self.taken.len());
    }

    fn submit(
        &mut self,
        (from, text, number): (Option<usize>, usize, usize),
        (mode, tokens): (usize, usize),
    ) {
        let ended = |taken: &&Taken| {
            let done = self.log.done.get(&taken.id);
            done.is_some_and(|summary| summary.finish != Finish::Cancelled)
        };
        let ended: Vec<&Taken> = self.taken.iter().filter(ended).collect();
        let tokenizer = self.scheduler.tokenizer();
        let earlier = from.and_then(|from| ended.get(from % ended.len().max(1)));
        let prompt = match earlier.filter(|earlier| earlier.prompt.len() < 150) {
            // The whole answer that it would have got, so that few prompts come up.
            Some(earlier) => [
                &earlier.prompt[..],
                &alone(&earlier.prompt, earlier.setting),
                &follow_up(tokenizer, text),
            ]
            .concat(),
            None => beginning(tokenizer, text),
        };
        let drafts = ["off", "mtp:2", "lookup", "adaptive"][mode].parse().unwrap();
        let job = Job {
            prompt: prompt.clone(),
            max_tokens: Some(tokens),
            sampling: setting(number),
            drafts,
            boundaries: earlier.map(|earlier| earlier.prompt.len()).into_iter().collect(),
            ..Job::default()
        };
        match self.scheduler.submit(job) {
            Ok(id) => self.taken.push(Taken { id, prompt, setting: number, tokens }),
            Err(Refused::QueueFull { .. }) => self.refused += 1,
            Err(other) => panic!("{other}"),
        }
    }

    /// Breaks everything off and begins with the same slots, and perhaps the cache.
    fn restart(&mut self, keep_cache: bool) {
        for taken in &self.taken {
            self.scheduler.cancel(taken.id);
        }
        self.log.run(&mut self.scheduler);
        self.check();
        let tokenizer = self.scheduler.tokenizer().clone();
        let (engine, _) = sample(1, 8);
        let limits = self.limits;
        let small = Scheduler::new(engine, tokenizer.clone(), limits);
        let (engine, cache) = std::mem::replace(&mut self.scheduler, small).into_parts();
        let cache = cache.filter(|_| keep_cache);
        let cache = cache.unwrap_or_else(|| StateCache::for_states(self.budget));
        self.scheduler = Scheduler::new(engine, tokenizer, limits).with_cache(cache);
        self.before += self.taken.len();
        // Names of requests begin anew.
        (self.taken, self.log, self.refused) = (Vec::new(), Log::default(), 0);
    }

    /// Holds what was said against what is said alone.
    fn check(&self) {
        assert!(self.log.failed.is_empty() && self.scheduler.is_idle());
        let Totals { ended, refused, .. } = *self.scheduler.totals();
        assert_eq!((ended, refused), (self.taken.len() as u64, self.refused));
        for Taken { id, prompt, setting, tokens } in &self.taken {
            // One that was broken off in the queue never said anything.
            let Some(summary) = self.log.done.get(id) else {
                assert!(self.log.text(*id).is_empty());
                continue;
            };
            let expected = alone(prompt, *setting);
            let expected = &expected[..expected.len().min(*tokens)];
            if summary.finish == Finish::Cancelled {
                assert!(expected.starts_with(&summary.tokens));
            } else {
                assert_eq!(summary.tokens, expected);
                assert_eq!(summary.reused + summary.prefilled, prompt.len());
            }
        }
    }
}

/// Cases that are the same in every run, others for another seed.
fn runner(cases: u32, seed: u8) -> TestRunner {
    let (failure_persistence, max_shrink_iters) = (None, 200);
    let config =
        ProptestConfig { cases, failure_persistence, max_shrink_iters, ..Default::default() };
    let rng = TestRng::from_seed(config.rng_algorithm, &[seed; 32]);
    TestRunner::new_with_rng(config, rng)
}

#[test]
fn whatever_happens_nobody_gets_a_wrong_byte() {
    let _alone = counting::alone();
    let cases = (sizes(), proptest::collection::vec(an_op(), 20..60));
    let play = |(sizes, ops): (Sizes, Vec<Op>)| {
        let mut world = World::new(&sizes);
        ops.iter().for_each(|op| world.apply(op));
        world.log.run(&mut world.scheduler);
        world.check();
        Ok(())
    };
    runner(12, 1).run(&cases, play).unwrap();
}

/// As many requests as somebody makes in three hours with one every five seconds.
#[test]
#[ignore = "takes a quarter of an hour"]
fn three_hours_of_it_take_no_memory() {
    let _alone = counting::alone();
    let requests = Mutex::new(0);
    let cases = (sizes(), proptest::collection::vec(an_op(), 60..120));
    let play = |(sizes, ops): (Sizes, Vec<Op>)| {
        let mut world = World::new(&sizes);
        let mut held = Vec::new();
        for _ in 0..4 {
            ops.iter().for_each(|op| world.apply(op));
            world.restart(false);
            held.push(counting::held());
        }
        *requests.lock().unwrap() += world.before;
        // The first time the texts alone come to be known, and buffers find their sizes. A slot
        // that is free keeps its last text.
        let slack = sizes.tokens * world.per_token + (64 << 10);
        let grown = held[3] - held[1];
        assert!(grown <= slack as isize, "{held:?}");
        Ok(())
    };
    for seed in 2.. {
        runner(10, seed).run(&cases, play).unwrap();
        let requests = *requests.lock().unwrap();
        println!("{requests} requests");
        if requests >= 2160 {
            return;
        }
    }
}
