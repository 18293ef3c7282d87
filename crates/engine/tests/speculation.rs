//! Drafts never change a text or a state: whoever drafts, however many, accepted or not.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::speculation::{Ask, Drafter, Drafts, NoDrafts, Proposer, Round, Source, SpecMode};
use engine::{
    Engine, EngineConfig, Error, Finish, Generator, NormExtent, Request, SamplingParams, Summary,
};
use gguf::Gguf;
use model::tokenizer::Tokenizer;
use model::{Checkpoint, DraftVocab};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// A model with what its texts need.
struct Player {
    engine: Engine<Cpu>,
    tokenizer: Tokenizer,
    prompt: Vec<u32>,
    tokens: usize,
}

impl Player {
    fn new(file: &Gguf, checkpoint: &Checkpoint, threads: usize, tokens: usize) -> Self {
        let config = EngineConfig {
            context: tokens + 200,
            chunk: 32,
            deferred: 9,
            mtp: Some(NormExtent::Whole),
            ..EngineConfig::default()
        };
        let backend = cpu(threads, Isa::detect());
        let engine = Engine::new(backend, checkpoint, config, &mut |_| {}).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        Self { engine, tokenizer, prompt: Vec::new(), tokens }
    }

    /// The sample model, which drafts from the block in its file.
    fn sample(tokens: usize) -> (Self, Checkpoint) {
        let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
        let checkpoint = Checkpoint::load(&file).unwrap();
        let mut player = Self::new(&file, &checkpoint, 2, tokens);
        let text = "Once upon a time there was a miller who had three sons.";
        let special = model::tokenizer::SpecialTokens::AsText;
        player.prompt = player.tokenizer.encode(text, special).unwrap();
        (player, checkpoint)
    }

    /// A random model; one of them has a drafting block in a second file.
    fn fixture(name: &str, tokens: usize) -> Self {
        let file = Gguf::open(fixture(&format!("{name}.gguf"))).unwrap();
        let checkpoint = match name {
            "tiny-f32" => {
                let mtp = Gguf::open(fixture("tiny-f32-mtp.gguf")).unwrap();
                Checkpoint::load_with_mtp(&file, &mtp).unwrap()
            }
            _ => Checkpoint::load(&file).unwrap(),
        };
        let mut player = Self::new(&file, &checkpoint, 2, tokens);
        player.prompt = prompt(name, "eos");
        player
    }

    fn run(&mut self, sampling: &SamplingParams, proposer: &mut dyn Proposer<Cpu>) -> Summary {
        let Self { engine, tokenizer, prompt, tokens } = self;
        engine.reset(0).unwrap();
        // The text goes on whatever the model would like.
        let stops = tokenizer.stop_ids().iter().map(|&id| (id, f32::NEG_INFINITY));
        let sampling = SamplingParams { logit_bias: stops.collect(), ..sampling.clone() };
        let request = Request { prompt, max_tokens: Some(*tokens), sampling, ..Request::default() };
        let mut generator = Generator { engine, slot: 0, tokenizer, proposer };
        let summary = generator.generate(&request, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(summary.finish, Finish::Length);
        summary
    }

    /// Tokens and the hash of the state at the end.
    fn play(
        &mut self,
        sampling: &SamplingParams,
        proposer: &mut dyn Proposer<Cpu>,
    ) -> (Vec<u32>, u64) {
        let tokens = self.run(sampling, proposer).tokens;
        (tokens, self.engine.state_hash(0).unwrap())
    }
}

fn settings() -> [(&'static str, SamplingParams); 4] {
    let base = SamplingParams { seed: 11, ..SamplingParams::default() };
    let usual = SamplingParams { temperature: 0.7, top_k: 40, top_p: 0.95, ..base.clone() };
    let hot = SamplingParams { temperature: 1.5, min_p: 0.01, ..base.clone() };
    let penalised = SamplingParams {
        repetition_penalty: 1.1,
        presence_penalty: 0.2,
        frequency_penalty: 0.1,
        penalty_window: 64,
        ..usual.clone()
    };
    [("greedy", base), ("0.7", usual), ("1.5", hot), ("penalties", penalised)]
}

/// Proposes what is known to come, what is known not to come, or some of each.
struct Forced<'a> {
    text: &'a [u32],
    /// Right drafts before the first wrong one, and all drafts, round by round.
    plan: Box<dyn FnMut(usize) -> (usize, usize)>,
    rounds: usize,
}

impl<'a> Forced<'a> {
    fn new(text: &'a [u32], plan: impl FnMut(usize) -> (usize, usize) + 'static) -> Self {
        Self { text, plan: Box::new(plan), rounds: 0 }
    }
}

impl Proposer<Cpu> for Forced<'_> {
    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let (right, count) = (self.plan)(self.rounds);
        self.rounds += 1;
        let coming = &self.text[ask.output.len()..];
        let draft = |(i, &token): (usize, &u32)| if i < right { token } else { (token + 1) % 256 };
        let tokens: Vec<u32> =
            coming.iter().enumerate().take(count.min(ask.room)).map(draft).collect();
        Ok(Drafts { source: Source::Lookup, tokens, ..Drafts::default() })
    }
}

/// Notes the state's hash at the start of every round, by the length of the sequence.
struct Hashing<'a> {
    inner: &'a mut dyn Proposer<Cpu>,
    hashes: HashMap<usize, u64>,
}

impl Proposer<Cpu> for Hashing<'_> {
    fn begin(&mut self) {
        self.inner.begin();
    }

    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let hash = ask.engine.state_hash(ask.slot)?;
        self.hashes.insert(ask.engine.history(ask.slot)?.len(), hash);
        self.inner.propose(ask)
    }

    fn observe(&mut self, round: &Round<'_>, drawn: &[u32]) -> Option<String> {
        self.inner.observe(round, drawn)
    }
}

fn hashes(
    player: &mut Player,
    sampling: &SamplingParams,
    inner: &mut dyn Proposer<Cpu>,
) -> HashMap<usize, u64> {
    let mut hashing = Hashing { inner, hashes: HashMap::new() };
    player.play(sampling, &mut hashing);
    hashing.hashes
}

fn modes(mtp: bool) -> Vec<SpecMode> {
    let mut texts: Vec<String> = ["lookup", "lookup:3", "adaptive"].map(String::from).to_vec();
    if mtp {
        texts.extend((1..=8).map(|depth| format!("mtp:{depth}")));
        texts.push("mtp+lookup:4".to_owned());
    }
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// All proposers of a model, by name.
fn proposers<'a>(player: &Player, text: &'a [u32]) -> Vec<(String, Box<dyn Proposer<Cpu> + 'a>)> {
    let mut all: Vec<(String, Box<dyn Proposer<Cpu> + 'a>)> = Vec::new();
    for mode in modes(player.engine.has_mtp()) {
        all.push((mode.to_string(), Box::new(Drafter::new(mode, &player.engine))));
    }
    let mut add = |name: &str, proposer| all.push((name.to_owned(), Box::new(proposer)));
    add("accepted", Forced::new(text, |_| (8, 8)));
    add("rejected", Forced::new(text, |round| (0, 1 + round % 8)));
    add("mixed", Forced::new(text, |round| (round * 7 % 9, round * 5 % 9)));
    all
}

#[test]
fn two_thousand_tokens_of_the_sample_model_are_the_same_with_any_drafts() {
    let (mut player, _) = Player::sample(2000);
    for (setting, sampling) in settings() {
        let plain = player.play(&sampling, &mut NoDrafts);
        for (name, mut proposer) in proposers(&player, &plain.0) {
            let found = player.play(&sampling, &mut *proposer);
            assert!(found.0 == plain.0, "{setting}, {name}: tokens");
            assert_eq!(found.1, plain.1, "{setting}, {name}: state");
        }
    }
}

#[test]
fn drafts_from_a_part_of_the_vocabulary_give_the_same_text() {
    let (mut player, checkpoint) = Player::sample(2000);
    let vocab = player.engine.hyper_params().vocab;
    let plain: Vec<_> =
        settings().into_iter().map(|(_, s)| (player.play(&s, &mut NoDrafts), s)).collect();
    for keep in [3, 40] {
        let ids = (0..vocab as u32).filter(|id| id % 41 < keep).collect();
        let subset = DraftVocab::new(ids, vocab).unwrap();
        player.engine.load_draft_vocab(&checkpoint, subset).unwrap();
        for (plain, sampling) in &plain {
            let mut drafter = Drafter::new(SpecMode::Mtp { depth: 3 }, &player.engine);
            assert!(player.play(sampling, &mut drafter) == *plain, "{keep} of 41");
        }
    }
}

#[test]
fn states_are_the_same_after_each_round_on_random_models() {
    for model in MODELS {
        let mut player = Player::fixture(model, 500);
        for (setting, sampling) in settings() {
            let plain = player.play(&sampling, &mut NoDrafts);
            let states = hashes(&mut player, &sampling, &mut NoDrafts);
            assert_eq!(states.len(), 499, "{model}");
            for (name, mut proposer) in proposers(&player, &plain.0) {
                let found = player.play(&sampling, &mut *proposer);
                assert!(found == plain, "{model}, {setting}, {name}");
                if setting == "greedy" || setting == "penalties" {
                    let found = hashes(&mut player, &sampling, &mut *proposer);
                    let same = |(len, hash): (&usize, &u64)| states[len] == *hash;
                    assert!(found.iter().all(same), "{model}, {setting}, {name}: states");
                }
            }
        }
    }
}

#[test]
fn fault_026_the_first_draft_is_checked_like_any_other() {
    let mut player = Player::fixture("tiny-f32", 60);
    let sampling = SamplingParams::default();
    let plain = player.run(&sampling, &mut NoDrafts).tokens;
    let wrong_first = player.run(&sampling, &mut Forced::new(&plain, |_| (0, 4)));
    assert_eq!(wrong_first.tokens, plain);
    let total = wrong_first.speculation.total();
    assert_eq!(total.accepted, 0);
    let right = player.run(&sampling, &mut Forced::new(&plain, |_| (8, 8)));
    assert_eq!(right.tokens, plain);
    assert_eq!(right.speculation.total().acceptance(), Some(1.0));
}

#[test]
fn the_sample_model_accepts_most_of_its_own_drafts() {
    let (mut player, _) = Player::sample(300);
    for (setting, sampling) in settings() {
        let mut drafter = Drafter::new(SpecMode::Mtp { depth: 2 }, &player.engine);
        let stats = player.run(&sampling, &mut drafter).speculation;
        let acceptance = stats.total().acceptance().unwrap();
        // The block was trained for this model; a wrong one accepts next to nothing.
        let expected = if setting == "1.5" { 0.2 } else { 0.4 };
        assert!(acceptance > expected, "{setting}: {stats}");
    }
}
