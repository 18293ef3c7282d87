//! Texts on the GPU: no draft changes one, requests in one window are as alone, and weights that
//! are no numbers end in an error.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::gpu_with;
use common::models::*;
use engine::batch::{Job, JobEvent, Limits, Scheduler};
use engine::speculation::{Ask, Drafter, Drafts, NoDrafts, Proposer, Source};
use engine::{Engine, Error, Finish, Generator, Request, SamplingError, SamplingParams};
use gpu::Gpu;
use kernels::Activations;
use model::tokenizer::Tokenizer;
use model::{Checkpoint, Mixer, Tensor};
use std::ops::ControlFlow;

const MODEL: &str = "tiny-f32";

fn tokenizer() -> Tokenizer {
    let file = gguf::Gguf::open(fixture("tiny-f32.gguf")).unwrap();
    Tokenizer::from_metadata(file.metadata()).unwrap()
}

/// Greedy, and such that every token depends on those before it; nothing ends a text.
fn samplings() -> [SamplingParams; 2] {
    let stops: Vec<_> = tokenizer().stop_ids().iter().map(|&id| (id, f32::NEG_INFINITY)).collect();
    let greedy = SamplingParams { seed: 3, logit_bias: stops, ..SamplingParams::default() };
    let hot = SamplingParams {
        temperature: 1.2,
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.3,
        ..greedy.clone()
    };
    [greedy, hot]
}

/// How a text ended, its tokens, and the state behind it.
fn generate(
    engine: &mut Engine<Gpu>,
    request: &Request<'_>,
    proposer: &mut dyn Proposer<Gpu>,
) -> (Result<(Finish, Vec<u32>), Error>, u64) {
    engine.reset(0).unwrap();
    let tokenizer = &tokenizer();
    let mut generator = Generator { engine, slot: 0, tokenizer, proposer };
    let result = generator.generate(request, &mut |_| ControlFlow::Continue(()));
    (result.map(|summary| (summary.finish, summary.tokens)), engine.state_hash(0).unwrap())
}

/// Proposes what is known to come, and wrong tokens behind so many right ones.
struct Oracle {
    text: Vec<u32>,
    rounds: usize,
}

impl Proposer<Gpu> for Oracle {
    fn propose(&mut self, ask: Ask<'_, Gpu>) -> Result<Drafts, Error> {
        let (right, count) = (self.rounds * 7 % 9, 1 + self.rounds * 5 % 8);
        self.rounds += 1;
        let coming = self.text[ask.output.len()..].iter().copied().chain(std::iter::repeat(7));
        let draft = |(i, token): (usize, u32)| if i < right { token } else { (token + 1) % 256 };
        let tokens = coming.enumerate().take(count.min(ask.room)).map(draft).collect();
        Ok(Drafts { source: Source::Lookup, tokens, ..Drafts::default() })
    }
}

#[test]
fn drafts_never_change_a_text_or_a_state() {
    with_engine(Activations::Int8, &checkpoint(MODEL), sizes(), |engine| {
        let prompt = prompt(MODEL, "short");
        let most = if full() { 100 } else { 12 };
        let few = ["mtp:3", "mtp+lookup:8"];
        let more = ["mtp:1", "mtp:8", "lookup", "adaptive"];
        for sampling in samplings() {
            let request =
                Request { prompt: &prompt, max_tokens: Some(most), sampling, ..Request::default() };
            let plain = generate(engine, &request, &mut NoDrafts);
            let (finish, text) = plain.0.unwrap();
            assert_eq!((finish, text.len()), (Finish::Length, most));
            let mut oracle = Oracle { text: text.clone(), rounds: 0 };
            let found = generate(engine, &request, &mut oracle);
            assert!(found.0.unwrap().1 == text && found.1 == plain.1, "an oracle");
            for mode in few.into_iter().chain(more.into_iter().filter(|_| full())) {
                let mut drafter = Drafter::new(mode.parse().unwrap(), engine);
                let found = generate(engine, &request, &mut drafter);
                assert!(found.0.unwrap().1 == text && found.1 == plain.1, "{mode}");
            }
        }
    });
}

/// A bias of nothing changes no logit, and draws with it look at all of them.
#[test]
fn draws_from_lists_of_the_largest_logits_give_the_same_texts() {
    let all = [(1.0, 20, 0.95, 0.0), (0.7, 40, 1.0, 0.05), (1.5, 0, 1.0, 0.3), (0.0, 0, 1.0, 0.0)];
    with_engine(Activations::Int8, &checkpoint(MODEL), sizes(), |engine| {
        let prompt = prompt(MODEL, "short");
        let most = if full() { 100 } else { 10 };
        for (temperature, top_k, top_p, min_p) in all {
            for seed in 0..if full() { 20 } else { 2 } {
                let short =
                    SamplingParams { temperature, top_k, top_p, min_p, seed, ..Default::default() };
                let whole = SamplingParams { logit_bias: vec![(0, 0.0)], ..short.clone() };
                let mut texts = [short, whole].map(|sampling| {
                    let request = Request {
                        prompt: &prompt,
                        max_tokens: Some(most),
                        sampling,
                        ..Request::default()
                    };
                    let before = engine.logit_counts();
                    let mut drafter = Drafter::new("mtp:3".parse().unwrap(), engine);
                    let plain = generate(engine, &request, &mut NoDrafts);
                    let drafted = generate(engine, &request, &mut drafter);
                    let after = engine.logit_counts();
                    let lists = after.lists - before.lists;
                    (plain.0.unwrap(), plain.1, drafted.0.unwrap(), drafted.1, lists)
                });
                assert!(texts[0].4 > 0, "no list was enough, top-k {top_k}");
                assert_eq!(texts[1].4, 0);
                texts[0].4 = 0;
                assert_eq!(texts[0], texts[1], "top-k {top_k}, seed {seed}");
                assert_eq!((&texts[0].0, texts[0].1), (&texts[0].2, texts[0].3));
            }
        }
    });
}

/// The tokens of `jobs` at work together, and the engine behind them.
fn together(engine: Engine<Gpu>, jobs: &[Job]) -> (Vec<Vec<u32>>, Engine<Gpu>) {
    let mut scheduler = Scheduler::new(engine, tokenizer(), Limits::default());
    let ids: Vec<_> = jobs.iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
    let mut texts = vec![Vec::new(); jobs.len()];
    while !scheduler.is_idle() {
        scheduler.step(&mut |id, event| {
            if let JobEvent::Done(done) = event {
                texts[ids.iter().position(|other| *other == id).unwrap()] = done.tokens;
            }
            ControlFlow::Continue(())
        });
    }
    (texts, scheduler.into_parts().0)
}

#[test]
fn requests_with_lists_and_with_whole_rows_share_windows() {
    let Some(gpu) = gpu_with(Activations::Int8) else { return };
    let mut engine = Engine::new(gpu, &checkpoint(MODEL), sizes(), &mut |_| {}).unwrap();
    let job = |sampling: SamplingParams, drafts: &str| Job {
        prompt: prompt(MODEL, "short"),
        max_tokens: Some(8),
        sampling,
        drafts: drafts.parse().unwrap(),
        ..Job::default()
    };
    let cut = SamplingParams { temperature: 1.0, top_k: 20, seed: 4, ..Default::default() };
    let whole = SamplingParams { top_k: 0, top_p: 0.9, ..cut.clone() };
    let jobs = [job(SamplingParams::default(), "mtp:2"), job(cut, "off"), job(whole, "off")];
    let mut alone = Vec::new();
    for job in &jobs {
        let (texts, back) = together(engine, std::slice::from_ref(job));
        (alone, engine) = ([alone, texts].concat(), back);
    }
    for count in [2, 3] {
        let before = engine.logit_counts();
        let (texts, back) = together(engine, &jobs[..count]);
        engine = back;
        assert_eq!(texts, alone[..count], "{count} together");
        let lists = engine.logit_counts().lists - before.lists;
        assert!(count == 3 || lists > 0, "no list was enough");
    }
}

/// Puts another value in front of a row of an f32 matrix.
fn put(tensor: &mut Tensor, row: usize, value: f32) {
    let mut bytes = tensor.bytes.to_vec();
    let at = row * tensor.n_in * 4;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    tensor.bytes = bytes.into();
}

/// A tensor of the model by its name in the file.
fn tensor<'a>(checkpoint: &'a mut Checkpoint, name: &str) -> &'a mut Tensor {
    let layers = &mut checkpoint.layers;
    match name {
        "output" => &mut checkpoint.output,
        "token_embd" => &mut checkpoint.token_embd,
        "router" => &mut layers[0].moe.router,
        "delta rule" => match &mut layers[0].mixer {
            Mixer::Gdn(gdn) => &mut gdn.qkv,
            Mixer::Attention(_) => panic!("no delta-rule layer"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn fault_117_fault_133_nan_in_a_matrix_ends_in_an_error() {
    let sound = checkpoint(MODEL);
    let tokens = prompt(MODEL, "short");
    for name in ["output", "token_embd", "router", "delta rule"] {
        let mut damaged = sound.clone();
        let row = if name == "token_embd" { tokens[3] as usize } else { 0 };
        put(tensor(&mut damaged, name), row, f32::NAN);
        with_engine(Activations::Int8, &damaged, sizes(), |engine| {
            let request = Request { prompt: &tokens, max_tokens: Some(4), ..Request::default() };
            let (result, _) = generate(engine, &request, &mut NoDrafts);
            let is_non_finite =
                matches!(result, Err(Error::Sampling(SamplingError::NonFinite { .. })));
            assert!(is_non_finite, "{name}: {result:?}");
        });
    }
}
