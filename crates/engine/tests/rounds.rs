//! The edges of a speculative round: whatever ends a text, wherever among accepted and rejected
//! drafts, the events, the tokens, the state and the turn after it are those of plain decoding.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::speculation::{
    Ask, Drafter, Drafts, Head, NoDrafts, Proposer, Round, Source, SpecMode,
};
use engine::{
    Context, DraftStep, Engine, EngineConfig, Error, Finish, Generator, NormExtent, Request,
    SamplingParams, Want,
};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::{SkipSpecial, Tokenizer};
use std::ops::ControlFlow;

const PROMPT: &str = "eos";
const CONTEXT: usize = 200;

/// A model that can generate.
struct Model {
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
}

impl Model {
    fn tiny() -> Self {
        let (file, mtp) = ["tiny-f32.gguf", "tiny-f32-mtp.gguf"]
            .map(|name| Gguf::open(fixture(name)).unwrap())
            .into();
        let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
        Self { checkpoint, tokenizer: Tokenizer::from_metadata(file.metadata()).unwrap() }
    }

    fn engine(&self, context: usize, chunk: usize) -> Engine<Cpu> {
        let (deferred, mtp) = (chunk.min(9), Some(NormExtent::Whole));
        let config = EngineConfig { slots: 1, context, chunk, deferred, mtp };
        Engine::new(cpu(1, Isa::detect()), &self.checkpoint, config, &mut |_| {}).unwrap()
    }

    /// What comes of a request in which the sink breaks off at event number `break_at`.
    fn turn(
        &self,
        engine: &mut Engine<Cpu>,
        proposer: &mut dyn Proposer<Cpu>,
        request: &Request<'_>,
        break_at: usize,
    ) -> Turn {
        let mut events = Vec::new();
        let mut generator = Generator { engine, slot: 0, tokenizer: &self.tokenizer, proposer };
        let result = generator.generate(request, &mut |event| {
            events.push(format!("{event:?}"));
            if events.len() > break_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let end = match result {
            Ok(summary) => Ok((summary.finish, summary.tokens, summary.reused)),
            Err(error) => Err(error.to_string()),
        };
        let (history, hash) = (engine.history(0).unwrap().to_vec(), engine.state_hash(0).unwrap());
        Turn { events, end, history, hash }
    }

    /// The prompt and what plain decoding goes on with, far enough for every test.
    fn plain(&self, prompt: &[u32], sampling: &SamplingParams) -> Vec<u32> {
        let request = Request {
            prompt,
            max_tokens: Some(80),
            sampling: sampling.clone(),
            ..Request::default()
        };
        let mut engine = self.engine(prompt.len() + 100, 32);
        let turn = self.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
        [prompt, &turn.end.unwrap().1].concat()
    }
}

/// All that can be seen of a turn.
#[derive(Debug, PartialEq)]
struct Turn {
    events: Vec<String>,
    end: Result<(Finish, Vec<u32>, usize), String>,
    history: Vec<u32>,
    hash: u64,
}

/// Proposes what is known to come, and wrong tokens behind so many right ones.
struct Oracle {
    text: Vec<u32>,
    /// Right drafts before the first wrong one, and all drafts, round by round.
    plan: fn(usize) -> (usize, usize),
    rounds: usize,
}

impl Proposer<Cpu> for Oracle {
    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let (right, count) = (self.plan)(self.rounds);
        self.rounds += 1;
        let at = (ask.prompt.len() + ask.output.len()).min(self.text.len());
        let coming = self.text[at..].iter().copied().chain(std::iter::repeat(7));
        let draft = |(i, token): (usize, u32)| if i < right { token } else { (token + 1) % 256 };
        let tokens = coming.enumerate().take(count.min(ask.room)).map(draft).collect();
        Ok(Drafts { source: Source::Lookup, tokens, ..Drafts::default() })
    }
}

const PLANS: [fn(usize) -> (usize, usize); 5] = [
    |_| (8, 8),
    |round| (round % 8, 8),
    |round| (0, 1 + round % 8),
    |round| (round * 7 % 9, round * 5 % 9),
    |round| (if round == 0 { 2 } else { 8 }, 8),
];
const MODES: [&str; 3] = ["mtp:8", "mtp+lookup:3", "adaptive"];

/// A request in an engine of these sizes.
struct Case<'a> {
    request: Request<'a>,
    context: usize,
    chunk: usize,
}

/// Two turns, the first broken off at `break_at`, plain and with every proposer.
fn same_as_plain(model: &Model, case: &Case<'_>, break_at: usize) -> [Turn; 2] {
    let Case { request, context, chunk } = case;
    let whole = model.plain(request.prompt, &request.sampling);
    let mut engine = model.engine(*context, *chunk);
    let first = model.turn(&mut engine, &mut NoDrafts, request, break_at);
    let mut prompt = [&first.history[..], &[19, 23]].concat();
    prompt.truncate(*context);
    let mut again = request.clone();
    again.prompt = &prompt;
    let second = model.turn(&mut engine, &mut NoDrafts, &again, usize::MAX);
    let whole_again = model.plain(&prompt, &request.sampling);

    let mut check = |name: &str, proposers: &mut [Box<dyn Proposer<Cpu>>; 2]| {
        engine.reset(0).unwrap();
        let about =
            format!("{name}, {request:?}, context {context}, chunk {chunk}, break {break_at}");
        let [one, two] = proposers;
        let found = model.turn(&mut engine, &mut **one, request, break_at);
        assert_eq!(found, first, "{about}");
        let found = model.turn(&mut engine, &mut **two, &again, usize::MAX);
        assert_eq!(found, second, "second turn, {about}");
    };
    for (i, plan) in PLANS.into_iter().enumerate() {
        let oracle = |text: &[u32]| -> Box<dyn Proposer<Cpu>> {
            Box::new(Oracle { text: text.to_vec(), plan, rounds: 0 })
        };
        check(&format!("plan {i}"), &mut [oracle(&whole), oracle(&whole_again)]);
    }
    for mode in MODES {
        let engine = model.engine(*context, *chunk);
        let drafter =
            || -> Box<dyn Proposer<Cpu>> { Box::new(Drafter::new(mode.parse().unwrap(), &engine)) };
        check(mode, &mut [drafter(), drafter()]);
    }
    [first, second]
}

fn hot(seed: u64) -> SamplingParams {
    SamplingParams {
        temperature: 1.2,
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.3,
        seed,
        ..SamplingParams::default()
    }
}

fn endless(model: &Model, sampling: &SamplingParams) -> SamplingParams {
    let stops = model.tokenizer.stop_ids().iter().map(|&id| (id, f32::NEG_INFINITY));
    SamplingParams { logit_bias: stops.collect(), ..sampling.clone() }
}

#[test]
fn token_limits_and_full_contexts_end_where_they_do_without_drafts() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    for max in [1, 2, 9, 10] {
        let sampling = endless(&model, &hot(3));
        let request =
            Request { prompt: &prompt, max_tokens: Some(max), sampling, ..Request::default() };
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
        assert_eq!(first.end.as_ref().unwrap().0, Finish::Length);
    }
    for more in [0, 1, 2, 10] {
        let sampling = endless(&model, &hot(4));
        let request = Request { prompt: &prompt, sampling, ..Request::default() };
        let context = prompt.len() + more;
        for chunk in [1, 32] {
            let request = request.clone();
            let [first, _] = same_as_plain(&model, &Case { request, context, chunk }, usize::MAX);
            assert_eq!(first.end.as_ref().unwrap().0, Finish::ContextFull);
        }
    }
}

#[test]
fn fault_103_a_text_may_be_broken_off_at_any_event_and_goes_on() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(5));
    let request = Request { prompt: &prompt, max_tokens: Some(16), sampling, ..Request::default() };
    let all = same_as_plain(
        &model,
        &Case { request: request.clone(), context: CONTEXT, chunk: 10 },
        usize::MAX,
    );
    let events = all[0].events.len();
    assert!(events > 10, "{events}");
    for break_at in 0..events {
        let request = request.clone();
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 10 }, break_at);
        assert_eq!(first.events.len(), break_at + 1);
    }
}

#[test]
fn stop_strings_end_in_the_middle_of_accepted_drafts() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(6));
    let whole = model.plain(&prompt, &sampling);
    let output = &whole[prompt.len()..];
    let mut stopped = 0;
    for end in [1, 2, 5, 9, 10, 13] {
        for len in [1, 3] {
            let tokens = &output[end.max(len) - len..end];
            let mut text = model.tokenizer.decode_text(tokens, SkipSpecial::Yes).unwrap();
            if len == 3 {
                text = text.chars().skip(1).collect();
            }
            let request = Request {
                prompt: &prompt,
                max_tokens: Some(20),
                sampling: sampling.clone(),
                stop: vec![text, "never in there".to_owned()],
            };
            let [first, _] =
                same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
            stopped += usize::from(matches!(first.end, Ok((Finish::StopString(_), ..))));
        }
    }
    assert!(stopped > 6, "{stopped}");
}

#[test]
fn an_end_of_text_may_be_drafted() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let mut ended = 0;
    for seed in 0..6 {
        let stops = model.tokenizer.stop_ids().iter().map(|&id| (id, 3.0));
        let sampling = SamplingParams { logit_bias: stops.collect(), ..hot(seed) };
        let request =
            Request { prompt: &prompt, max_tokens: Some(40), sampling, ..Request::default() };
        let [first, _] =
            same_as_plain(&model, &Case { request, context: CONTEXT, chunk: 32 }, usize::MAX);
        ended += usize::from(
            matches!(first.end, Ok((Finish::EndOfText(_), ref tokens, _)) if tokens.len() > 2),
        );
    }
    assert!(ended > 2, "{ended}");
}

#[test]
fn a_note_may_be_where_a_text_is_broken_off() {
    struct Noting(Oracle);
    impl Proposer<Cpu> for Noting {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            self.0.propose(ask)
        }
        fn observe(&mut self, _: &Round<'_>, _: &[u32]) -> Option<String> {
            Some("a note".to_owned())
        }
    }
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let text = model.plain(&prompt, &SamplingParams::default());
    let request = Request { prompt: &prompt, max_tokens: Some(20), ..Request::default() };
    let mut engine = model.engine(CONTEXT, 32);
    let mut noting = Noting(Oracle { text, plan: |_| (2, 4), rounds: 0 });
    let all = model.turn(&mut engine, &mut noting, &request, usize::MAX).events;
    let notes = all.iter().enumerate().filter(|(_, event)| event.starts_with("Note"));
    for (at, _) in notes {
        engine.reset(0).unwrap();
        noting.0.rounds = 0;
        let found = model.turn(&mut engine, &mut noting, &request, at);
        assert_eq!(found.events, all[..=at]);
        if at + 1 < all.len() {
            assert_eq!(found.end.unwrap().0, Finish::Cancelled);
        }
    }
}

/// Makes a value of a row of an f32 matrix something else.
fn put(tensor: &mut model::Tensor, row: usize, value: f32) {
    let mut bytes = tensor.bytes.to_vec();
    let at = row * tensor.n_in * 4;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    tensor.bytes = bytes.into();
}

#[test]
fn fault_117_non_finite_logits_end_a_round_where_they_end_a_plain_text() {
    let mut model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(8));
    let whole = model.plain(&prompt, &sampling);
    let output = &whole[prompt.len()..];
    let mut stopped = 0;
    for at in 0..12 {
        let bad = output[at];
        if prompt.contains(&bad) || output[..at].contains(&bad) {
            continue;
        }
        let damaged =
            Model { checkpoint: model.checkpoint.clone(), tokenizer: model.tokenizer.clone() };
        model.checkpoint.token_embd = damaged.checkpoint.token_embd.clone();
        put(&mut model.checkpoint.token_embd, bad as usize, f32::NAN);
        // Where a stop string ends the text with the last token before it, nobody meets it.
        let text = model.tokenizer.decode_text(&[bad], SkipSpecial::Yes).unwrap();
        for (plan, stop) in PLANS.iter().flat_map(|plan| [(plan, None), (plan, Some(&text))]) {
            let request = Request {
                prompt: &prompt,
                max_tokens: Some(30),
                sampling: sampling.clone(),
                stop: stop.into_iter().cloned().collect(),
            };
            let mut engine = model.engine(CONTEXT, 32);
            let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
            match &plain.end {
                Err(error) => {
                    let position = format!("position {} ", prompt.len() + at + 1);
                    assert!(error.contains(&position), "{error}");
                }
                Ok((finish, ..)) => {
                    assert!(matches!(finish, Finish::StopString(_)));
                    stopped += 1;
                }
            }
            engine.reset(0).unwrap();
            let mut oracle = Oracle { text: whole.clone(), plan: *plan, rounds: 0 };
            let found = model.turn(&mut engine, &mut oracle, &request, usize::MAX);
            assert_eq!(found.events, plain.events);
            assert_eq!(found.end, plain.end);
            assert_eq!(found.history, plain.history);
            assert!(!engine.is_broken(0).unwrap());
        }
        model = damaged;
    }
    assert!(stopped > 10, "{stopped}");
}

#[test]
fn a_rejected_draft_with_nan_leaves_no_trace() {
    let mut model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let sampling = endless(&model, &hot(9));
    let whole = model.plain(&prompt, &sampling);
    let bad = (0..256).find(|id| !whole.contains(id)).unwrap();
    put(&mut model.checkpoint.token_embd, bad as usize, f32::NAN);
    struct Bad(u32);
    impl Proposer<Cpu> for Bad {
        fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
            Ok(Drafts {
                source: Source::Lookup,
                tokens: vec![self.0; ask.room],
                ..Drafts::default()
            })
        }
    }
    let request = Request { prompt: &prompt, max_tokens: Some(60), sampling, ..Request::default() };
    let mut engine = model.engine(CONTEXT, 32);
    let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
    engine.reset(0).unwrap();
    let found = model.turn(&mut engine, &mut Bad(bad), &request, usize::MAX);
    assert!(found.end.is_ok(), "{:?}", found.end);
    assert_eq!(found, plain);
}

#[test]
fn a_damaged_drafting_block_only_stops_drafting() {
    for value in [f32::NAN, f32::INFINITY] {
        for part in 0..9 {
            let mut model = Model::tiny();
            let mtp = model.checkpoint.mtp.as_mut().unwrap();
            let model::Mixer::Attention(attention) = &mut mtp.layer.mixer else { panic!() };
            match part {
                0 => put(&mut mtp.eh_proj, 0, value),
                1 => put(&mut mtp.layer.moe.router, 0, value),
                2 => put(&mut attention.q, 0, value),
                3 => put(&mut attention.k, 0, value),
                4 => put(&mut mtp.head.down, 0, value),
                5 => put(&mut mtp.layer.moe.down, 0, value),
                6 => put(&mut attention.v, 0, value),
                7 => put(&mut mtp.layer.hc_ffn.inject, 0, value),
                _ => {
                    let mut own = model.checkpoint.output.clone();
                    put(&mut own, 17, value);
                    mtp.head_out = Some(own);
                }
            }
            let prompt = prompt("tiny-f32", "budget_edge");
            for sampling in [endless(&model, &hot(2)), endless(&model, &SamplingParams::default())]
            {
                let request = Request {
                    prompt: &prompt,
                    max_tokens: Some(40),
                    sampling,
                    ..Request::default()
                };
                let mut engine = model.engine(CONTEXT, 32);
                let plain = model.turn(&mut engine, &mut NoDrafts, &request, usize::MAX);
                assert!(plain.end.is_ok());
                engine.reset(0).unwrap();
                let mut drafter = Drafter::new("mtp:4".parse().unwrap(), &engine);
                let found = model.turn(&mut engine, &mut drafter, &request, usize::MAX);
                assert_eq!(found, plain);
            }
        }
    }
}

#[test]
fn drafts_are_drawn_with_the_noise_of_the_positions_that_they_are_for() {
    let model = Model::tiny();
    let prompt = prompt("tiny-f32", PROMPT);
    let (sampling, depth) = (hot(12), 6);
    let mut engine = model.engine(CONTEXT, 32);
    let start = |engine: &mut Engine<Cpu>| {
        engine.reset(0).unwrap();
        engine.prefill(0, &prompt, Want::Nothing).unwrap();
    };
    start(&mut engine);
    // A draw from the block's logits is what plain sampling makes of them at the token's place.
    let mut expected = vec![42];
    while expected.len() <= depth {
        let (mut logits, token) = (Vec::new(), expected[expected.len() - 1]);
        engine.draft(&[DraftStep { slot: 0, token }], Head::Full, &mut logits).unwrap();
        let context = Context { prompt: &prompt, output: &expected };
        let position = prompt.len() + expected.len();
        expected.push(sampling.sample(&mut logits, &context, position).unwrap());
    }
    start(&mut engine);
    let mut drafter = Drafter::new(SpecMode::Mtp { depth }, &engine);
    let mut output = vec![42];
    let engine = &mut engine;
    let (prompt, output, sampling) = (&prompt[..], &mut output, &sampling);
    let ask = Ask { engine, slot: 0, prompt, output, sampling, room: 8 };
    assert_eq!(drafter.propose(ask).unwrap().tokens, expected[1..]);
}
