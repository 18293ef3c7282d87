//! Texts with a prompt cache are the texts without: same bytes, same states, same drafts.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::cache::{Inserted, Keep, Mark, Recalled, StateCache};
use engine::speculation::{Ask, Drafter, Drafts, Proposer, Round, SpecMode};
use engine::{
    Engine, EngineConfig, Error, Event, Generator, NormExtent, PIECE_TOKENS, Request,
    SamplingParams, Summary, Want,
};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::{SpecialTokens, Tokenizer};
use std::ops::ControlFlow;

/// A model with its tokenizer, and a slot's worth of engine.
struct Player {
    engine: Engine<Cpu>,
    tokenizer: Tokenizer,
    mode: SpecMode,
}

/// Drafts as another, and notes what it drafted.
struct Noting<'a> {
    inner: &'a mut Drafter,
    drafts: Vec<Vec<u32>>,
}

impl Proposer<Cpu> for Noting<'_> {
    fn begin(&mut self) {
        Proposer::<Cpu>::begin(self.inner);
    }

    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let drafts = self.inner.propose(ask)?;
        self.drafts.push(drafts.tokens.clone());
        Ok(drafts)
    }

    fn observe(&mut self, round: &Round<'_>, drawn: &[u32]) -> Option<String> {
        Proposer::<Cpu>::observe(self.inner, round, drawn)
    }
}

/// All that a text is: its bytes and tokens, the drafts on the way, and the state at its end.
#[derive(Debug, PartialEq)]
struct Played {
    text: String,
    tokens: Vec<u32>,
    drafts: Vec<Vec<u32>>,
    hash: u64,
}

impl Player {
    fn new(model: &str, mode: &str) -> Self {
        let open = |name: &str| Gguf::open(fixture(name)).unwrap();
        let (file, checkpoint) = match model {
            "sample" => {
                let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
                let checkpoint = Checkpoint::load(&file).unwrap();
                (file, checkpoint)
            }
            "tiny-f32" => {
                let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
                let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
                (file, checkpoint)
            }
            _ => (open(&format!("{model}.gguf")), checkpoint(model)),
        };
        let mode: SpecMode = mode.parse().unwrap();
        let mtp = (mode != SpecMode::Off).then_some(NormExtent::Whole);
        let config = EngineConfig { deferred: 9, context: 600, mtp, ..config(1, 48) };
        let engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        Self { engine, tokenizer, mode }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, SpecialTokens::AsText).unwrap()
    }

    fn play(&mut self, prompt: &[u32], keep: Option<Keep<'_>>) -> (Played, Summary) {
        // A drafter of a fixed depth has no memory of costs: its drafts follow from the text.
        let mut drafter = Drafter::new(self.mode, &self.engine);
        let mut noting = Noting { inner: &mut drafter, drafts: Vec::new() };
        let (engine, tokenizer) = (&mut self.engine, &self.tokenizer);
        let sampling = SamplingParams { seed: 5, temperature: 0.6, ..SamplingParams::default() };
        let request = Request { prompt, max_tokens: Some(24), sampling, ..Request::default() };
        let mut text = String::new();
        let mut sink = |event: Event<'_>| {
            if let Event::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        };
        let mut generator = Generator { engine, slot: 0, tokenizer, proposer: &mut noting };
        let summary = generator.generate_cached(&request, keep, &mut sink);
        let (summary, drafts) = (summary.unwrap(), noting.drafts);
        let hash = self.engine.state_hash(0).unwrap();
        (Played { text, tokens: summary.tokens.clone(), drafts, hash }, summary)
    }

    /// The text of a fresh slot without a cache.
    fn cold(&mut self, prompt: &[u32]) -> Played {
        self.engine.reset(0).unwrap();
        let (played, summary) = self.play(prompt, None);
        assert_eq!(summary.reused, 0);
        played
    }

    /// The text of a fresh slot with the cache, and the tokens it spared.
    fn warm(&mut self, prompt: &[u32], cache: &mut StateCache, ends: &[usize]) -> (Played, usize) {
        self.engine.reset(0).unwrap();
        let (played, summary) = self.play(prompt, Some(Keep::at(cache, ends)));
        assert_eq!(summary.reused + summary.prefilled, prompt.len());
        (played, summary.reused)
    }
}

/// So many tokens that are no text of anybody.
fn tokens(count: usize, salt: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i * 7 + i * 13 + salt * 29) % 250 + 1).collect()
}

const PLAYERS: [(&str, &str); 7] = [
    ("tiny-f32", "off"),
    ("tiny-f32", "mtp:3"),
    ("tiny-16bit", "off"),
    ("quantmix", "off"),
    ("quantmix", "lookup"),
    ("sample", "off"),
    ("sample", "mtp:3"),
];

#[test]
fn fault_062_fault_064_hits_are_the_texts_of_cold_runs() {
    for (model, mode) in PLAYERS {
        let mut player = Player::new(model, mode);
        let mut cache = StateCache::for_states(64 << 20);
        let system = tokens(150, 1);
        let turns = [tokens(20, 2), tokens(90, 3)];
        let prompts = turns.map(|turn| [&system[..], &turn[..]].concat());
        let cold = prompts.each_ref().map(|prompt| player.cold(prompt));

        let drafted = cold.iter().all(|played| played.drafts.iter().any(|d| !d.is_empty()));
        assert!(drafted || !mode.starts_with("mtp"), "{model} {mode} drafts nothing");

        let (first, reused) = player.warm(&prompts[0], &mut cache, &[150]);
        assert_eq!((&first, reused), (&cold[0], 0), "{model} {mode}: nothing to find");
        let (other, reused) = player.warm(&prompts[1], &mut cache, &[150]);
        assert_eq!((&other, reused), (&cold[1], 150), "{model} {mode}: the system prompt");
        for (prompt, cold) in prompts.iter().zip(&cold) {
            let (again, reused) = player.warm(prompt, &mut cache, &[150]);
            assert_eq!(&again, cold, "{model} {mode}: the same again");
            assert!(reused >= 150 && reused < prompt.len(), "{reused}");
        }
        // A conversation that goes on, in a slot that did something else in between.
        let mut longer = [&prompts[0][..], &cold[0].tokens].concat();
        longer.extend(tokens(30, 4));
        let expected = player.cold(&longer);
        let (next, reused) = player.warm(&longer, &mut cache, &[]);
        assert_eq!(next, expected, "{model} {mode}: after the answer");
        assert!(reused + 1 >= prompts[0].len() + cold[0].tokens.len(), "{reused}");
        assert!(cache.bytes() <= cache.budget());
    }
}

#[test]
fn without_boundaries_the_same_prompt_computes_one_token() {
    let mut player = Player::new("tiny-f32", "mtp:3");
    let mut cache = StateCache::for_states(64 << 20);
    let prompt = tokens(131, 6);
    let cold = player.cold(&prompt);
    assert_eq!(player.warm(&prompt, &mut cache, &[]), (cold, 0));
    assert_eq!(player.warm(&prompt, &mut cache, &[]).1, 130);
    // Shorter than what was saved: nothing to go on from.
    let short = player.cold(&prompt[..130]);
    assert_eq!(player.warm(&prompt[..130], &mut cache, &[]), (short, 0));
}

#[test]
fn forks_share_and_each_goes_its_own_way() {
    for (model, mode) in [("sample", "mtp:3"), ("quantmix", "off")] {
        let mut player = Player::new(model, mode);
        let mut cache = StateCache::for_states(64 << 20);
        let story = "Once upon a time there was a king who had three sons. ".repeat(6);
        let root = player.encode(&story);
        let ends: Vec<Vec<u32>> =
            ["One day", "The old king said", "Es war"].map(|end| player.encode(end)).to_vec();
        let texts: Vec<Vec<u32>> = ends.iter().map(|end| [&root[..], end].concat()).collect();
        let cold: Vec<Played> = texts.iter().map(|text| player.cold(text)).collect();
        for round in 0..2 {
            for (text, cold) in texts.iter().zip(&cold) {
                let (played, reused) = player.warm(text, &mut cache, &[root.len()]);
                assert_eq!(&played, cold, "{model} {mode}");
                assert!(reused >= root.len() || round == 0);
            }
        }
    }
}

#[test]
fn fault_065_a_slot_used_otherwise_takes_nothing_from_what_was_saved() {
    let mut player = Player::new("quantmix", "off");
    let mut cache = StateCache::for_states(64 << 20);
    let prompts: Vec<Vec<u32>> = (0..5).map(|salt| tokens(100 + salt as usize, salt)).collect();
    let cold: Vec<Played> = prompts.iter().map(|prompt| player.cold(prompt)).collect();
    // One slot, five conversations, no reset in between.
    for _ in 0..2 {
        for (prompt, cold) in prompts.iter().zip(&cold) {
            let (played, _) = player.play(prompt, Some(Keep::at(&mut cache, &[90])));
            assert_eq!(&played, cold);
        }
    }
}

#[test]
fn a_tiny_budget_costs_speed_and_nothing_else() {
    for budget in [0, 1000, 20_000, 200_000, 500_000] {
        let mut player = Player::new("tiny-f32", "mtp:3");
        let mut cache = StateCache::for_states(budget);
        for salt in [0, 1, 0, 2, 1] {
            let prompt = tokens(140, salt);
            let cold = player.cold(&prompt);
            let (played, _) = player.warm(&prompt, &mut cache, &[70, 120]);
            assert_eq!(played, cold, "{budget}");
            assert!(cache.bytes() <= budget);
        }
    }
}

#[test]
fn the_slot_s_own_state_is_used_where_it_is_longer() {
    let mut player = Player::new("tiny-f32", "off");
    let mut cache = StateCache::for_states(64 << 20);
    let text = tokens(200, 1);
    let engine = &mut player.engine;
    engine.prefill(0, &text[..100], Want::Nothing).unwrap();
    assert_eq!(engine.remember(0, &mut cache, Mark::Boundary).unwrap(), Inserted::Kept);
    assert_eq!(engine.remember(0, &mut cache, Mark::Boundary).unwrap(), Inserted::Known);
    engine.prefill(0, &text[100..150], Want::Nothing).unwrap();
    let recall = |engine: &mut Engine<Cpu>, cache: &mut StateCache, prompt: &[u32]| {
        let recalled = engine.recall(0, Some(cache), prompt).unwrap();
        assert_eq!(engine.history(0).unwrap(), &prompt[..recalled.tokens()]);
        recalled
    };
    assert_eq!(recall(engine, &mut cache, &text), Recalled::Held(150));
    assert_eq!(recall(engine, &mut cache, &text[..150]), Recalled::Restored(100));
    assert_eq!(recall(engine, &mut cache, &text[..100]), Recalled::Nothing);
    assert_eq!(engine.recall(0, None, &text).unwrap(), Recalled::Nothing);
    assert!(matches!(engine.recall(7, Some(&mut cache), &text), Err(Error::NoSlot { .. })));
}

#[test]
fn fault_061_a_cache_of_another_model_is_of_no_use_and_does_no_harm() {
    let mut cache = StateCache::for_states(64 << 20);
    let prompt = tokens(PIECE_TOKENS * 2 + 3, 1);
    Player::new("quantmix", "off").warm(&prompt, &mut cache, &[]);
    let before = cache.snapshots();
    let mut other = Player::new("tiny-16bit", "off");
    let cold = other.cold(&prompt);
    assert_eq!(other.warm(&prompt, &mut cache, &[]), (cold, 0));
    assert!(before > 0 && cache.snapshots() > 0);
}
