//! Faults that engines with speculative decoding have had, each with the input that shows it.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::speculation::{
    Ask, Drafter, Drafts, Head, NoDrafts, Proposer, Round, Source, SpecMode,
};
use engine::{
    Context, DraftStep, Engine, EngineConfig, Error, Event, Feed, Finish, Generator, NormExtent,
    Request, SamplingParams, Summary, Want,
};
use gguf::Gguf;
use model::tokenizer::{SpecialTokens, Tokenizer};
use model::{Checkpoint, DraftVocab};
use std::ops::ControlFlow;

struct Sample {
    engine: Engine<Cpu>,
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
}

impl Sample {
    fn new(slots: usize) -> Self {
        let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
        let checkpoint = Checkpoint::load(&file).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        let config = EngineConfig {
            slots,
            context: 700,
            chunk: 64,
            deferred: 9,
            mtp: Some(NormExtent::Whole),
            ..EngineConfig::default()
        };
        let engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
        Self { engine, checkpoint, tokenizer }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, SpecialTokens::AsText).unwrap()
    }

    fn drafter(&self, mode: &str) -> Drafter {
        Drafter::new(mode.parse().unwrap(), &self.engine)
    }

    fn generate(
        &mut self,
        request: &Request<'_>,
        proposer: &mut dyn Proposer<Cpu>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Summary {
        let (engine, tokenizer) = (&mut self.engine, &self.tokenizer);
        Generator { engine, slot: 0, tokenizer, proposer }.generate(request, sink).unwrap()
    }

    /// Streamed text and what is said of it.
    fn run(
        &mut self,
        request: &Request<'_>,
        proposer: &mut dyn Proposer<Cpu>,
    ) -> (String, Summary) {
        let mut text = String::new();
        let summary = self.generate(request, proposer, &mut |event| {
            if let Event::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        });
        (text, summary)
    }
}

fn greedy(prompt: &[u32], max_tokens: usize) -> Request<'_> {
    Request { prompt, max_tokens: Some(max_tokens), ..Request::default() }
}

#[test]
fn fault_025_what_cannot_be_kept_is_computed_again() {
    let mut sample = Sample::new(1);
    let mut drafter = sample.drafter("mtp:4");
    let prompt = sample.encode("Once upon a time there was a king");
    let (_, first) = sample.run(&greedy(&prompt, 30), &mut drafter);
    // A second turn that leaves the first in the middle: no state is there for that position.
    let mut turn = [prompt.clone(), first.tokens[..11].to_vec()].concat();
    turn.extend(sample.encode(" and a queen"));
    let (text, summary) = sample.run(&greedy(&turn, 30), &mut drafter);
    assert_eq!((summary.reused, summary.prefilled), (0, turn.len()));
    let mut fresh = Sample::new(1);
    assert_eq!(text, fresh.run(&greedy(&turn, 30), &mut NoDrafts).0);
    // One that goes on where the first ended takes up all of it.
    let on = [turn, summary.tokens, sample.encode(" Then")].concat();
    let (text, summary) = sample.run(&greedy(&on, 30), &mut drafter);
    assert!(summary.reused > 0 && summary.reused + summary.prefilled == on.len());
    assert_eq!(text, fresh.run(&greedy(&on, 30), &mut NoDrafts).0);
}

#[test]
fn fault_029_a_model_loaded_again_drafts_as_before() {
    let drafts = || {
        let mut sample = Sample::new(1);
        let prompt = sample.encode("Once upon a time");
        let mut drafter = sample.drafter("mtp:3");
        let (text, summary) = sample.run(&greedy(&prompt, 60), &mut drafter);
        (text, summary.speculation.total())
    };
    let first = drafts();
    drop(engine_on(cpu(1, Isa::detect()), "quantmix", config(1, 32)));
    let again = drafts();
    assert_eq!(first, again);
    assert!(first.1.acceptance().unwrap() > 0.6);
}

#[test]
fn fault_032_temperature_and_seed_hold_with_drafts() {
    let mut sample = Sample::new(1);
    let prompt = sample.encode("The old man");
    for temperature in [0.3, 2.0] {
        let mut texts = Vec::new();
        for seed in [1, 2] {
            let sampling = SamplingParams { temperature, seed, ..SamplingParams::default() };
            let request = Request { sampling, ..greedy(&prompt, 50) };
            let mut drafter = sample.drafter("mtp:3");
            let text = sample.run(&request, &mut drafter).0;
            assert_eq!(text, sample.run(&request, &mut drafter).0);
            assert_eq!(text, sample.run(&request, &mut NoDrafts).0);
            texts.push(text);
        }
        assert_ne!(texts[0], texts[1]);
    }
}

/// Drafts the same token again and again.
struct Stubborn(u32);

impl Proposer<Cpu> for Stubborn {
    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let tokens = vec![self.0; ask.room];
        Ok(Drafts { source: Source::Lookup, tokens, ..Drafts::default() })
    }
}

#[test]
fn fault_035_rejected_drafts_are_not_penalised() {
    let mut sample = Sample::new(1);
    let prompt = sample.encode("Once upon a time");
    let sampling = SamplingParams {
        presence_penalty: 1.5,
        frequency_penalty: 1.5,
        repetition_penalty: 1.3,
        ..SamplingParams::default()
    };
    let request = Request { sampling, ..greedy(&prompt, 120) };
    let (plain, summary) = sample.run(&request, &mut NoDrafts);
    // Tokens that come later: a penalty left over from their rejection would show.
    for &token in summary.tokens.iter().step_by(17) {
        assert_eq!(sample.run(&request, &mut Stubborn(token)).0, plain);
    }
}

#[test]
fn fault_037_greedy_text_is_the_same_at_every_depth() {
    let mut sample = Sample::new(1);
    let prompt = sample.encode("Two friends walked");
    let plain = sample.run(&greedy(&prompt, 150), &mut NoDrafts).0;
    for depth in 1..=8 {
        let mut drafter = sample.drafter(&format!("mtp:{depth}"));
        assert_eq!(sample.run(&greedy(&prompt, 150), &mut drafter).0, plain, "depth {depth}");
    }
}

#[test]
fn fault_041_a_looping_text_stops_at_once_when_asked() {
    let mut sample = Sample::new(1);
    let prompt = sample.encode(&"</think>".repeat(30));
    let plain = sample.run(&greedy(&prompt, 200), &mut NoDrafts).0;
    let mut drafter = sample.drafter("lookup");
    let (text, summary) = sample.run(&greedy(&prompt, 200), &mut drafter);
    assert_eq!(text, plain);
    // After this event nothing more may come, in the middle of a round or not.
    let events = text.len().min(20);
    for wanted in 1..events {
        let mut seen = 0;
        let cut = sample.generate(&greedy(&prompt, 200), &mut drafter, &mut |event| {
            seen += usize::from(matches!(event, Event::Text(_)));
            if seen >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((cut.finish, seen), (Finish::Cancelled, wanted));
        assert_eq!(cut.tokens, summary.tokens[..cut.tokens.len()]);
        // The state is that of the tokens that were shown.
        let fed = prompt.len() + cut.tokens.len() - 1;
        assert_eq!(sample.engine.history(0).unwrap().len(), fed);
    }
    assert_eq!(sample.run(&greedy(&prompt, 200), &mut drafter).0, plain);
}

#[test]
fn stop_texts_end_in_the_middle_of_accepted_drafts() {
    let mut sample = Sample::new(1);
    let prompt = sample.encode("Once upon a time");
    let (whole, _) = sample.run(&greedy(&prompt, 100), &mut NoDrafts);
    for at in (5..whole.len().min(200)).step_by(9) {
        if !whole.is_char_boundary(at) || !whole.is_char_boundary(at + 4) {
            continue;
        }
        let stop = vec![whole[at..at + 4].to_owned()];
        let request = Request { stop, ..greedy(&prompt, 100) };
        let plain = sample.run(&request, &mut NoDrafts);
        let state = sample.engine.state_hash(0).unwrap();
        let mut drafter = sample.drafter("mtp:8");
        let found = sample.run(&request, &mut drafter);
        assert_eq!((found.0, found.1.tokens), (plain.0, plain.1.tokens));
        assert_eq!(sample.engine.state_hash(0).unwrap(), state);
    }
}

/// Collects the notes of a drafter.
struct Noting {
    inner: Drafter,
    notes: Vec<String>,
}

impl Proposer<Cpu> for Noting {
    fn begin(&mut self) {
        Proposer::<Cpu>::begin(&mut self.inner);
    }

    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        self.inner.propose(ask)
    }

    fn observe(&mut self, round: &Round<'_>, drawn: &[u32]) -> Option<String> {
        let note = Proposer::<Cpu>::observe(&mut self.inner, round, drawn);
        self.notes.extend(note.clone());
        note
    }
}

#[test]
fn a_text_outside_the_draft_vocabulary_gets_the_full_head_and_says_so_once() {
    let mut sample = Sample::new(1);
    let vocab = sample.engine.hyper_params().vocab;
    let prompt = sample.encode("Once upon a time");
    let request = Request {
        sampling: SamplingParams {
            logit_bias: sample.tokenizer.stop_ids().iter().map(|&id| (id, -1e9)).collect(),
            ..SamplingParams::default()
        },
        ..greedy(&prompt, 300)
    };
    let (plain, summary) = sample.run(&request, &mut NoDrafts);
    // A list that has next to nothing of this text.
    let ids = (0..vocab as u32).filter(|id| !summary.tokens.contains(id)).collect();
    let subset = DraftVocab::new(ids, vocab).unwrap();
    sample.engine.load_draft_vocab(&sample.checkpoint, subset).unwrap();
    let inner = sample.drafter("mtp:2");
    let mut noting = Noting { inner, notes: Vec::new() };
    let (text, summary) = sample.run(&request, &mut noting);
    assert_eq!(text, plain);
    assert!(summary.speculation.total().accepted > 50, "{}", summary.speculation);
    assert_eq!(noting.notes.len(), 1, "{:?}", noting.notes);
    assert!(noting.notes[0].contains("full vocabulary"), "{:?}", noting.notes);
}

/// A sequence that is drafted and verified by hand.
struct Sequence {
    prompt: Vec<u32>,
    output: Vec<u32>,
    sampling: SamplingParams,
}

impl Sequence {
    fn draw(&self, logits: &mut [f32]) -> u32 {
        let context = Context { prompt: &self.prompt, output: &self.output };
        let position = self.prompt.len() + self.output.len();
        self.sampling.sample(logits, &context, position).unwrap()
    }
}

/// Drafts of both slots in the same steps, windows of both at once.
fn duet(sample: &mut Sample, pair: &mut [Sequence; 2], tokens: usize) -> (usize, usize) {
    let vocab = sample.engine.hyper_params().vocab;
    let engine = &mut sample.engine;
    for (slot, sequence) in pair.iter_mut().enumerate() {
        engine.reset(slot).unwrap();
        let mut logits = engine.prefill(slot, &sequence.prompt, Want::Last).unwrap();
        let first = sequence.draw(&mut logits);
        sequence.output.push(first);
    }
    let (mut drafted, mut accepted, mut round) = (0, 0, 0);
    while pair.iter().any(|sequence| sequence.output.len() < tokens) {
        // One of the slots may be ahead in its chain of drafts, or make none at all.
        round += 1;
        let depth = [round % 4, (round + 2) % 5];
        let mut windows = pair.each_ref().map(|sequence| vec![*sequence.output.last().unwrap()]);
        for step in 0..4 {
            let steps: Vec<DraftStep> = (0..2)
                .filter(|&slot| step < depth[slot])
                .map(|slot| DraftStep { slot, token: *windows[slot].last().unwrap() })
                .collect();
            if steps.is_empty() {
                break;
            }
            let mut logits = Vec::new();
            engine.draft(&steps, Head::Full, &mut logits).unwrap();
            for (step, logits) in steps.iter().zip(logits.chunks_exact_mut(vocab)) {
                let sequence = &mut pair[step.slot];
                let before = sequence.output.len();
                sequence.output.extend(&windows[step.slot][1..]);
                let draft = sequence.draw(logits);
                sequence.output.truncate(before);
                windows[step.slot].push(draft);
            }
        }
        let feeds = [Feed::deferred(0, &windows[0]), Feed::deferred(1, &windows[1])];
        let mut logits = engine.forward(&feeds).unwrap();
        let mut rows = logits.chunks_exact_mut(vocab);
        for (slot, window) in windows.iter().enumerate() {
            let own: Vec<&mut [f32]> = rows.by_ref().take(window.len()).collect();
            let mut fed = 0;
            for (row, logits) in own.into_iter().enumerate() {
                fed += 1;
                let token = pair[slot].draw(logits);
                pair[slot].output.push(token);
                if window.get(row + 1) != Some(&token) {
                    break;
                }
            }
            drafted += window.len() - 1;
            accepted += fed - 1;
            engine.decide(slot, fed).unwrap();
        }
    }
    (drafted, accepted)
}

#[test]
fn fault_023_two_slots_that_speculate_at_once_tell_their_own_texts() {
    let mut sample = Sample::new(2);
    let texts = ["Once upon a time there was a king", "The fox and the crow"];
    for temperature in [0.0, 0.7, 1.5] {
        let mut pair = texts.map(|text| {
            let prompt = sample.encode(text);
            let seed = prompt.len() as u64;
            let sampling = SamplingParams {
                temperature,
                seed,
                top_k: 40,
                presence_penalty: 0.3,
                logit_bias: sample.tokenizer.stop_ids().iter().map(|&id| (id, -1e9)).collect(),
                ..SamplingParams::default()
            };
            Sequence { prompt, output: Vec::new(), sampling }
        });
        let solo = pair.each_ref().map(|sequence| {
            let sampling = sequence.sampling.clone();
            let request = Request { sampling, ..greedy(&sequence.prompt, 240) };
            sample.run(&request, &mut NoDrafts).1.tokens
        });
        let (drafted, accepted) = duet(&mut sample, &mut pair, 240);
        for (sequence, solo) in pair.iter().zip(&solo) {
            assert_eq!(sequence.output[..240], solo[..], "temperature {temperature}");
        }
        assert!(10 * accepted > drafted, "{accepted} of {drafted} accepted");
    }
}

#[test]
fn modes_without_a_block_do_what_they_can() {
    let file = Gguf::open(fixture("quantmix.gguf")).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let config = EngineConfig { deferred: 9, mtp: Some(NormExtent::Whole), ..config(1, 64) };
    let mut engine = engine_on(cpu(1, Isa::detect()), "quantmix", config);
    let prompt = prompt("quantmix", "repeat");
    let mut texts = Vec::new();
    for mode in ["off", "mtp:2", "lookup", "mtp+lookup", "adaptive"] {
        let mode: SpecMode = mode.parse().unwrap();
        let mut drafter = Drafter::new(mode, &engine);
        let proposer: &mut dyn Proposer<Cpu> = &mut drafter;
        let mut generator =
            Generator { engine: &mut engine, slot: 0, tokenizer: &tokenizer, proposer };
        let summary =
            generator.generate(&greedy(&prompt, 60), &mut |_| ControlFlow::Continue(())).unwrap();
        texts.push(summary.tokens);
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}
