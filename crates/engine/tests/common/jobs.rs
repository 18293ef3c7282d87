//! Requests for a scheduler on the sample model, what they say, and what they say alone.

use super::{cpu, root};
use cpu::{Cpu, Isa};
use engine::batch::{Job, JobEvent, JobId, JobSummary, Limits, Scheduler};
use engine::speculation::NoDrafts;
use engine::{Engine, EngineConfig, Error, Event, Generator, NormExtent, Request, SamplingParams};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::{SpecialTokens, Tokenizer};
use std::collections::HashMap;
use std::ops::ControlFlow;

pub(crate) fn sample(slots: usize, chunk: usize) -> (Engine<Cpu>, Tokenizer) {
    sample_of(slots, chunk, 400)
}

/// With another context.
pub(crate) fn sample_of(slots: usize, chunk: usize, context: usize) -> (Engine<Cpu>, Tokenizer) {
    let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let config = EngineConfig {
        slots,
        context,
        chunk,
        deferred: 9.min(chunk),
        mtp: Some(NormExtent::Whole),
        ..EngineConfig::default()
    };
    let engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
    (engine, tokenizer)
}

pub(crate) fn scheduler(slots: usize, limits: Limits) -> Scheduler<Cpu> {
    let (engine, tokenizer) = sample(slots, 48);
    Scheduler::new(engine, tokenizer, limits)
}

/// What requests said, and how they ended.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) texts: HashMap<JobId, String>,
    pub(crate) done: HashMap<JobId, JobSummary>,
    pub(crate) failed: HashMap<JobId, Error>,
}

impl Log {
    pub(crate) fn take(&mut self, id: JobId, event: JobEvent<'_>) -> ControlFlow<()> {
        match event {
            JobEvent::Text(Event::Text(text)) => {
                self.texts.entry(id).or_default().push_str(text);
            }
            JobEvent::Text(_) => {}
            JobEvent::Done(summary) => assert!(self.done.insert(id, *summary).is_none()),
            JobEvent::Failed(error) => assert!(self.failed.insert(id, error).is_none()),
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn step(&mut self, scheduler: &mut Scheduler<Cpu>) {
        scheduler.step(&mut |id, event| self.take(id, event));
    }

    pub(crate) fn run(&mut self, scheduler: &mut Scheduler<Cpu>) {
        while !scheduler.is_idle() {
            self.step(scheduler);
        }
    }

    pub(crate) fn text(&self, id: JobId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }
}

pub(crate) fn job(tokenizer: &Tokenizer, prompt: &str, max_tokens: usize) -> Job {
    let prompt = tokenizer.encode(prompt, SpecialTokens::AsText).unwrap();
    Job { prompt, max_tokens: Some(max_tokens), ..Job::default() }
}

/// Tokens and text of a run of its own, without drafts.
pub(crate) fn solo(jobs: &[Job]) -> Vec<(Vec<u32>, String)> {
    let (mut engine, tokenizer) = sample(1, 48);
    let run = |job: &Job| {
        let request = Request {
            prompt: &job.prompt,
            max_tokens: job.max_tokens,
            sampling: job.sampling.clone(),
            stop: job.stop.clone(),
        };
        let (proposer, mut text) = (&mut NoDrafts, String::new());
        let mut generator =
            Generator { engine: &mut engine, slot: 0, tokenizer: &tokenizer, proposer };
        let summary = generator.generate(&request, &mut |event| {
            if let Event::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        });
        (summary.unwrap().tokens, text)
    };
    jobs.iter().map(run).collect()
}

/// Sixteen prompts of different lengths, each with a word of its own, settings and seed.
pub(crate) fn sixteen(tokenizer: &Tokenizer) -> Vec<Job> {
    const WORDS: [&str; 16] = [
        "apple", "river", "candle", "window", "silver", "garden", "thunder", "basket", "mirror",
        "lantern", "pepper", "cottage", "whistle", "feather", "marble", "blanket",
    ];
    let modes = ["off", "mtp:3", "lookup", "adaptive"];
    let one = |(i, word): (usize, &&str)| {
        let text = format!("The code word is {word}. {}", "Say it again. ".repeat(i));
        let sampling = SamplingParams {
            temperature: [0.0, 0.7, 1.2][i % 3],
            top_k: 30,
            seed: i as u64,
            presence_penalty: 0.1 * (i % 2) as f32,
            ..SamplingParams::default()
        };
        let drafts = modes[i % modes.len()].parse().unwrap();
        Job { sampling, drafts, ..job(tokenizer, &text, 20 + i) }
    };
    WORDS.iter().enumerate().map(one).collect()
}

/// Numbers that look random, the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}
