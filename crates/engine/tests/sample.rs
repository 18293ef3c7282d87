//! The sample model: as close to its unquantised self as another engine on the same file, and the
//! generation loop on real text.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::speculation::NoDrafts;
use engine::{
    Engine, EngineConfig, Error, Event, Finish, Generator, Request, SamplingParams, Summary,
};
use model::Checkpoint;
use model::tokenizer::{SkipSpecial, SpecialTokens, Tokenizer};
use std::ops::ControlFlow;

struct Sample {
    engine: Engine<Cpu>,
    tokenizer: Tokenizer,
}

impl Sample {
    fn new(config: EngineConfig) -> Self {
        let file = gguf::Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
        let checkpoint = Checkpoint::load(&file).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        let engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
        Self { engine, tokenizer }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, SpecialTokens::AsText).unwrap()
    }

    /// Generates and returns the streamed text.
    fn run(&mut self, request: &Request<'_>) -> (String, Summary) {
        let mut text = String::new();
        let summary = self.generate(request, &mut |event| {
            if let Event::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        });
        (text, summary.unwrap())
    }

    fn generate(
        &mut self,
        request: &Request<'_>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Summary, Error> {
        let (engine, tokenizer) = (&mut self.engine, &self.tokenizer);
        Generator { engine, slot: 0, tokenizer, proposer: &mut NoDrafts }.generate(request, sink)
    }
}

fn small() -> EngineConfig {
    EngineConfig { slots: 1, context: 512, chunk: 32, ..EngineConfig::default() }
}

fn greedy(prompt: &[u32], max_tokens: usize) -> Request<'_> {
    Request { prompt, max_tokens: Some(max_tokens), ..Request::default() }
}

#[test]
fn as_close_to_the_unquantised_model_as_another_engine() {
    let folder = root().join("fixtures/sample");
    let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut sample = Sample::new(small());
    let vocab = sample.engine.hyper_params().vocab;
    for (name, prompt) in manifest["prompts"].as_object().unwrap() {
        let tokens = ids(&prompt["tokens"]);
        assert_eq!(
            sample
                .tokenizer
                .encode(prompt["text"].as_str().unwrap(), SpecialTokens::Parse)
                .unwrap(),
            tokens
        );
        let bytes = std::fs::read(folder.join(prompt["logits"].as_str().unwrap())).unwrap();
        let expected: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let found = logits_in_chunks(&mut sample.engine, &tokens, &[32]);
        let kld = mean_kld(&found, &expected, vocab);
        // The manifest's limit; what is left is the quantisation itself, the same for both engines.
        let other = prompt["llama_cpp_mean_kld_of_sample_gguf"].as_f64().unwrap();
        assert!(kld <= 3.0 * other + 1e-3, "{name}: {kld}, another engine {other}");
    }
}

#[test]
fn greedy_text_repeats_and_ends_by_itself() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("Once upon a time");
    let (text, summary) = sample.run(&greedy(&prompt, 400));
    assert!(text.len() > 100, "{text}");
    assert!(matches!(summary.finish, Finish::EndOfText(_)), "{:?}", summary.finish);
    let (again, _) = sample.run(&greedy(&prompt, 400));
    assert_eq!(text, again);
    let (short, summary) = sample.run(&greedy(&prompt, 10));
    assert!(text.starts_with(&short) && summary.finish == Finish::Length);
    assert_eq!(summary.tokens.len(), 10);
}

#[test]
fn fault_115_seeded_text_repeats_and_differs_by_seed() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("The old man");
    let mut text = |seed| {
        let sampling = SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() };
        sample.run(&Request { sampling, ..greedy(&prompt, 40) }).0
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn drawn_text_does_not_depend_on_chunks() {
    let mut texts = Vec::new();
    for chunk in [1, 3, 64] {
        let mut sample = Sample::new(EngineConfig { chunk, ..small() });
        let prompt = sample.encode("Anna and Tom went to the river because");
        let sampling = SamplingParams { temperature: 0.9, seed: 5, ..SamplingParams::default() };
        texts.push(sample.run(&Request { sampling, ..greedy(&prompt, 40) }).0);
    }
    assert!(texts.iter().all(|t| *t == texts[0]), "{texts:?}");
}

#[test]
fn fault_016_a_reused_prefix_gives_the_text_of_a_fresh_start() {
    let mut sample = Sample::new(small());
    let first = sample.encode("One day a small bird");
    let (_, summary) = sample.run(&greedy(&first, 12));
    let mut longer = first.clone();
    longer.extend(&summary.tokens);
    longer.extend(sample.encode(" Then she said"));

    let (reused, summary) = sample.run(&greedy(&longer, 30));
    assert!(summary.reused >= first.len(), "{summary:?}");
    let mut fresh = Sample::new(small());
    let (text, summary) = fresh.run(&greedy(&longer, 30));
    assert_eq!(summary.reused, 0);
    assert_eq!(reused, text);

    // A prompt that leaves the held tokens starts anew; so does the same prompt once more.
    let (other, summary) = sample.run(&greedy(&first, 12));
    assert_eq!(summary.reused, 0);
    assert_eq!(other, fresh.run(&greedy(&first, 12)).0);
}

#[test]
fn fault_047_a_long_prompt_gives_the_same_text_every_time() {
    let mut sample = Sample::new(small());
    // Several times the indexer's budget of 128 tokens.
    let story = "Once upon a time there was a fox who lived by the river and told old stories. ";
    let prompt = sample.encode(&story.repeat(24));
    assert!(prompt.len() > 3 * 128 && prompt.len() < 480, "{}", prompt.len());
    let (first, _) = sample.run(&greedy(&prompt, 12));
    assert!(!first.is_empty());
    for _ in 0..5 {
        assert_eq!(sample.run(&greedy(&prompt, 12)).0, first);
    }
}

#[test]
fn fault_034_penalties_change_text_and_repeat() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("Once upon a time");
    let sampling = SamplingParams { frequency_penalty: 1.5, ..SamplingParams::default() };
    let penalised = |sample: &mut Sample| {
        sample.run(&Request { sampling: sampling.clone(), ..greedy(&prompt, 60) }).0
    };
    let text = penalised(&mut sample);
    assert_eq!(text, penalised(&mut sample));
    assert_ne!(text, sample.run(&greedy(&prompt, 60)).0);
}

#[test]
fn stop_strings_end_the_text_before_them() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("Once upon a time");
    let (full, _) = sample.run(&greedy(&prompt, 60));
    let stop = full.split_whitespace().nth(6).unwrap().to_owned();
    let request = Request { stop: vec![stop.clone(), "never there".into()], ..greedy(&prompt, 60) };
    let (text, summary) = sample.run(&request);
    assert_eq!(summary.finish, Finish::StopString(stop.clone()));
    assert_eq!(text, full[..full.find(&stop).unwrap()]);
}

#[test]
fn draws_are_keyed_by_the_position_in_the_sequence() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("The old man");
    let sampling = SamplingParams { temperature: 1.0, seed: 7, ..SamplingParams::default() };
    let request = Request { sampling, ..greedy(&prompt, 8) };
    let (_, whole) = sample.run(&request);
    let longer = [&prompt[..], &whole.tokens[..3]].concat();
    let (_, rest) = sample.run(&Request { prompt: &longer, max_tokens: Some(5), ..request });
    assert_eq!(rest.tokens, whole.tokens[3..]);
}

#[test]
fn penalties_see_the_prompt() {
    let mut sample = Sample::new(small());
    let mut prompt = sample.encode("Once upon a time");
    // Up to where the model repeats one of the tokens so far.
    for token in sample.run(&greedy(&prompt, 60)).1.tokens {
        if prompt.contains(&token) {
            break;
        }
        prompt.push(token);
    }
    let next = sample.run(&greedy(&prompt, 1)).1.tokens;
    assert!(prompt.contains(&next[0]), "{next:?}");
    let sampling = SamplingParams { repetition_penalty: 1e9, ..SamplingParams::default() };
    let next = sample.run(&Request { sampling, ..greedy(&prompt, 1) }).1.tokens;
    assert!(!prompt.contains(&next[0]), "{next:?}");
}

#[test]
fn what_is_held_back_comes_at_the_end() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("Once upon a time");
    // The beginning of a stop string that never comes.
    let (full, _) = sample.run(&greedy(&prompt, 12));
    let stop = format!("{}\u{1}", full.chars().last().unwrap());
    let (text, _) = sample.run(&Request { stop: vec![stop], ..greedy(&prompt, 12) });
    assert_eq!(text, full);

    // The first byte of a character whose others never come.
    let is_partial = |&id: &u32| {
        let mut stream = sample.tokenizer.stream(SkipSpecial::Yes);
        stream.push(id).unwrap_or_default().is_empty() && stream.finish() == "\u{FFFD}"
    };
    let vocab = sample.engine.hyper_params().vocab as u32;
    let token = (0..vocab).find(is_partial).unwrap();
    let sampling = SamplingParams { logit_bias: vec![(token, 1e9)], ..SamplingParams::default() };
    let (text, summary) = sample.run(&Request { sampling, ..greedy(&prompt, 1) });
    assert_eq!((text.as_str(), summary.tokens), ("\u{FFFD}", vec![token]));
}

#[test]
fn fault_119_no_tokens_wanted_and_no_prompt() {
    let mut sample = Sample::new(small());
    let prompt = sample.encode("Hello");
    let (text, summary) = sample.run(&greedy(&prompt, 0));
    assert!(text.is_empty() && summary.tokens.is_empty() && summary.finish == Finish::Length);

    let empty = greedy(&[], 5);
    let result = sample.generate(&empty, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(Error::NoTokens)));
}

#[test]
fn over_long_prompts_and_full_contexts_are_told_apart() {
    let mut sample =
        Sample::new(EngineConfig { slots: 1, context: 20, chunk: 8, ..EngineConfig::default() });
    let prompt = vec![300; 21];
    let request = greedy(&prompt, 5);
    let result = sample.generate(&request, &mut |_| panic!("nothing may run"));
    assert!(matches!(result, Err(Error::ContextFull { tokens: 21, context: 20 })));

    let prompt = sample.encode("Once upon a time");
    let (_, summary) = sample.run(&greedy(&prompt, 100));
    assert_eq!(summary.finish, Finish::ContextFull);
    // The last token needs no room: it is drawn, not fed.
    assert_eq!(prompt.len() + summary.tokens.len(), 21);
}

#[test]
fn breaking_off_leaves_a_usable_slot() {
    let mut sample = Sample::new(small());
    let prompt =
        sample.encode("Once upon a time there was a king who had three sons and a daughter");
    let whole = sample.run(&greedy(&prompt, 20)).0;
    for events in 0..6 {
        let mut left = events;
        let summary = sample.generate(&greedy(&prompt, 20), &mut |_| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        assert_eq!(summary.unwrap().finish, Finish::Cancelled);
        assert_eq!(sample.run(&greedy(&prompt, 20)).0, whole);
    }
}

#[test]
fn unusable_feeds_are_typed_errors_and_change_nothing() {
    use engine::{Feed, Want};
    let mut sample =
        Sample::new(EngineConfig { slots: 2, context: 16, chunk: 8, ..EngineConfig::default() });
    let vocab = sample.engine.hyper_params().vocab;
    let feed = |slot, tokens| Feed::new(slot, tokens, Want::Last);
    let engine = &mut sample.engine;
    engine.forward(&[feed(0, &[5, 6])]).unwrap();
    assert!(matches!(engine.forward(&[]), Err(Error::NoTokens)));
    assert!(matches!(engine.forward(&[feed(0, &[])]), Err(Error::NoTokens)));
    assert!(matches!(engine.forward(&[feed(2, &[1])]), Err(Error::NoSlot { slot: 2, slots: 2 })));
    assert!(matches!(
        engine.forward(&[feed(0, &[1]), feed(0, &[1])]),
        Err(Error::SlotTwice { slot: 0 })
    ));
    let bad = [7, vocab as u32];
    assert!(matches!(engine.forward(&[feed(1, &bad)]), Err(Error::TokenOutOfRange { .. })));
    assert!(matches!(
        engine.forward(&[feed(0, &[1; 5]), feed(1, &[1; 4])]),
        Err(Error::WindowTooLong { rows: 9, limit: 8 })
    ));
    assert!(matches!(
        engine.prefill(0, &[1; 15], Want::Last),
        Err(Error::ContextFull { tokens: 17, context: 16 })
    ));
    assert_eq!(engine.history(0).unwrap(), [5, 6]);
    assert!(engine.history(1).unwrap().is_empty());
}
