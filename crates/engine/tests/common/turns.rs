//! Turns of a text on the tiny model with its drafting block, and all that can be seen of them.

use super::{cpu, fixture};
use cpu::{Cpu, Isa};
use engine::speculation::{Ask, Drafts, NoDrafts, Proposer, Source};
use engine::{Engine, EngineConfig, Error, Finish, Generator, NormExtent, Request, SamplingParams};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// More than any text needs.
pub(crate) const CONTEXT: usize = 200;

/// A model that can generate.
pub(crate) struct Model {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) tokenizer: Tokenizer,
}

impl Model {
    pub(crate) fn tiny() -> Self {
        let (file, mtp) = ["tiny-f32.gguf", "tiny-f32-mtp.gguf"]
            .map(|name| Gguf::open(fixture(name)).unwrap())
            .into();
        let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
        Self { checkpoint, tokenizer: Tokenizer::from_metadata(file.metadata()).unwrap() }
    }

    pub(crate) fn engine(&self, context: usize, chunk: usize) -> Engine<Cpu> {
        let (deferred, mtp) = (chunk.min(9), Some(NormExtent::Whole));
        let config =
            EngineConfig { slots: 1, context, chunk, deferred, mtp, ..EngineConfig::default() };
        Engine::new(cpu(1, Isa::detect()), &self.checkpoint, config, &mut |_| {}).unwrap()
    }

    /// What comes of a request in which the sink breaks off at event number `break_at`.
    pub(crate) fn turn(
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
    pub(crate) fn plain(&self, prompt: &[u32], sampling: &SamplingParams) -> Vec<u32> {
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
pub(crate) struct Turn {
    pub(crate) events: Vec<String>,
    pub(crate) end: Result<(Finish, Vec<u32>, usize), String>,
    pub(crate) history: Vec<u32>,
    pub(crate) hash: u64,
}

/// Proposes what is known to come, and wrong tokens behind so many right ones.
pub(crate) struct Oracle {
    /// Sequences; the first that begins with the prompt is what comes.
    pub(crate) texts: Vec<Vec<u32>>,
    /// Right drafts before the first wrong one, and all drafts, round by round.
    pub(crate) plan: fn(usize) -> (usize, usize),
    pub(crate) rounds: usize,
}

impl Proposer<Cpu> for Oracle {
    fn propose(&mut self, ask: Ask<'_, Cpu>) -> Result<Drafts, Error> {
        let (right, count) = (self.plan)(self.rounds);
        self.rounds += 1;
        let text = self.texts.iter().find(|text| text.starts_with(ask.prompt)).unwrap();
        let known = text.iter().skip(ask.prompt.len() + ask.output.len());
        let coming = known.copied().chain(std::iter::repeat(7));
        let draft = |(i, token): (usize, u32)| if i < right { token } else { (token + 1) % 256 };
        let tokens = coming.enumerate().take(count.min(ask.room)).map(draft).collect();
        Ok(Drafts { source: Source::Lookup, tokens, ..Drafts::default() })
    }
}

/// Plans of [`Oracle`].
pub(crate) const PLANS: [fn(usize) -> (usize, usize); 5] = [
    |_| (8, 8),
    |round| (round % 8, 8),
    |round| (0, 1 + round % 8),
    |round| (round * 7 % 9, round * 5 % 9),
    |round| (if round == 0 { 2 } else { 8 }, 8),
];

/// Settings under which every token depends on those before it.
pub(crate) fn hot(seed: u64) -> SamplingParams {
    SamplingParams {
        temperature: 1.2,
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.3,
        seed,
        ..SamplingParams::default()
    }
}

/// The settings, but nothing ends a text.
pub(crate) fn endless(model: &Model, sampling: &SamplingParams) -> SamplingParams {
    let stops = model.tokenizer.stop_ids().iter().map(|&id| (id, f32::NEG_INFINITY));
    SamplingParams { logit_bias: stops.collect(), ..sampling.clone() }
}

/// Makes a value of a row of an f32 matrix something else.
pub(crate) fn put(tensor: &mut model::Tensor, row: usize, value: f32) {
    let mut bytes = tensor.bytes.to_vec();
    let at = row * tensor.n_in * 4;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    tensor.bytes = bytes.into();
}
