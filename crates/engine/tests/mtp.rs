//! The drafting block against recorded drafts of other implementations.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::speculation::{Head, MAX_DEPTH};
use engine::{DraftStep, Engine, EngineConfig, Error, Feed, NormExtent, Want};
use gguf::Gguf;
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;
use serde_json::Value;

/// The limit of an f32 engine that the manifest suggests; the reference's own rounding is 3e-6.
const LIMIT: f32 = 2e-3;

fn extent(name: &Value) -> NormExtent {
    match name.as_str().unwrap() {
        "whole" => NormExtent::Whole,
        "grouped" => NormExtent::PerStream,
        other => panic!("{other}"),
    }
}

/// The model with the block of its separate file, attending blocks of `block` tokens.
fn with_block(block: usize) -> Checkpoint {
    let open = |name: &str| Gguf::open(fixture(name)).unwrap();
    let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
    let mut checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
    checkpoint.hp.mtp_block = block;
    let layer = &mut checkpoint.mtp.as_mut().unwrap().layer;
    layer.kind = model::LayerKind::Attention { block };
    checkpoint
}

fn engine<B: Backend>(backend: B, checkpoint: &Checkpoint, extent: NormExtent) -> Engine<B> {
    let config = EngineConfig { deferred: 9, mtp: Some(extent), ..config(2, 64) };
    Engine::new(backend, checkpoint, config, &mut |_| {}).unwrap()
}

fn draft<B: Backend>(engine: &mut Engine<B>, slot: usize, token: u32) -> Vec<f32> {
    let mut logits = Vec::new();
    engine.draft(&[DraftStep { slot, token }], Head::Full, &mut logits).unwrap();
    logits
}

/// Draft logits after `tokens` were fed in chunks: of `next` and the drafts that follow.
fn chain<B: Backend>(
    engine: &mut Engine<B>,
    (tokens, chunks): (&[u32], &[usize]),
    following: &[u32],
) -> Vec<f32> {
    logits_in_chunks(engine, tokens, chunks);
    following.iter().flat_map(|&token| draft(engine, 0, token)).collect()
}

fn fixtures_on<B: Backend>(mut backend: impl FnMut() -> B, chunks: &[usize]) {
    let cases = entry("tiny-f32")["mtp"]["cases"].as_object().unwrap().clone();
    assert_eq!(cases.len(), 12);
    for (name, case) in cases {
        let sparse = case["attention"] == "sparse";
        let checkpoint = with_block(if sparse { 4 } else { 0 });
        let mut engine = engine(backend(), &checkpoint, extent(&case["hnorm"]));
        let tokens = prompt("tiny-f32", case["prompt"].as_str().unwrap());
        let mut following = vec![case["first_token"].as_u64().unwrap() as u32];
        following.extend(ids(&case["drafts"]));
        following.pop();
        let found = chain(&mut engine, (&tokens, chunks), &following);
        let expected = read_f32(case["logits"]["file"].as_str().unwrap());
        let worst = max_abs_difference(&found, &expected);
        assert!(worst <= LIMIT, "{name} in chunks of {chunks:?}: {worst}");
    }
}

#[test]
fn fault_028_recorded_draft_logits_on_the_cpu() {
    // Whole, in passes as large as what is kept, and in small ones.
    for chunks in [&[64][..], &[16, 17], &[40, 3], &[2]] {
        fixtures_on(|| exact_cpu(2, Isa::detect()), chunks);
    }
}

#[test]
fn recorded_draft_logits_on_the_reference() {
    fixtures_on(|| Reference, &[64]);
}

#[test]
fn drafts_do_not_depend_on_what_was_tried_before() {
    let checkpoint = with_block(4);
    let mut engine = engine(exact_cpu(2, Isa::detect()), &checkpoint, NormExtent::Whole);
    let tokens = prompt("tiny-f32", "chunk");
    let plain = bits(&chain(&mut engine, (&tokens, &[64]), &[19, 183, 81]));

    // The same sequence through rounds whose drafts fail sooner or later.
    engine.reset(0).unwrap();
    let mut done = 0;
    for (round, accepted) in (0..).zip([1, 3, 2, 5, 1, 1, 4].into_iter().cycle()) {
        let count = usize::min(accepted, tokens.len() - done);
        if count == 0 {
            break;
        }
        if done > 0 && round % 3 > 0 {
            draft(&mut engine, 0, tokens[done]);
            draft(&mut engine, 0, 7);
        }
        let mut tried = tokens[done..done + count].to_vec();
        tried.extend(&[1, 2, 3][..round % 4]);
        engine.forward(&[Feed::deferred(0, &tried)]).unwrap();
        engine.decide(0, count).unwrap();
        done += count;
    }
    let found: Vec<f32> =
        [19, 183, 81].into_iter().flat_map(|token| draft(&mut engine, 0, token)).collect();
    assert!(bits(&found) == plain);
}

#[test]
fn slots_draft_together_as_they_do_alone() {
    let checkpoint = with_block(0);
    let mut engine = engine(exact_cpu(2, Isa::detect()), &checkpoint, NormExtent::Whole);
    let prompts = [prompt("tiny-f32", "eos"), prompt("tiny-f32", "short")];
    let alone: Vec<Vec<u32>> =
        prompts.iter().map(|p| bits(&chain(&mut engine, (p, &[64]), &[5, 9, 2]))).collect();
    for (slot, prompt) in prompts.iter().enumerate() {
        engine.reset(slot).unwrap();
        engine.prefill(slot, prompt, Want::Nothing).unwrap();
    }
    let vocab = engine.hyper_params().vocab;
    let mut together = [Vec::new(), Vec::new()];
    for token in [5, 9, 2] {
        let mut logits = Vec::new();
        let steps = [1, 0].map(|slot| DraftStep { slot, token });
        engine.draft(&steps, Head::Full, &mut logits).unwrap();
        for (step, row) in steps.iter().zip(logits.chunks_exact(vocab)) {
            together[step.slot].extend(bits(row));
        }
    }
    assert!(together[0] == alone[0] && together[1] == alone[1]);
}

#[test]
fn what_cannot_be_drafted_is_refused() {
    let checkpoint = with_block(0);
    let mut engine = engine(exact_cpu(1, Isa::detect()), &checkpoint, NormExtent::Whole);
    let mut logits = Vec::new();
    let mut draft = |engine: &mut Engine<_>, slot, token| {
        engine.draft(&[DraftStep { slot, token }], Head::Full, &mut logits)
    };
    assert!(matches!(draft(&mut engine, 0, 1), Err(Error::NothingToDraftFrom { slot: 0 })));
    assert!(matches!(draft(&mut engine, 7, 1), Err(Error::NoSlot { .. })));
    engine.forward(&[Feed::new(0, &[3, 4], Want::Nothing)]).unwrap();
    assert!(matches!(draft(&mut engine, 0, 99_999), Err(Error::TokenOutOfRange { .. })));
    draft(&mut engine, 0, 1).unwrap();
    engine.forward(&[Feed::deferred(0, &[1, 2])]).unwrap();
    assert!(matches!(draft(&mut engine, 0, 1), Err(Error::NothingToDraftFrom { slot: 0 })));
    engine.decide(0, 1).unwrap();
    draft(&mut engine, 0, 1).unwrap();

    let mut plain = engine_on(exact_cpu(1, Isa::detect()), "tiny-f32", config(1, 8));
    assert!(matches!(draft(&mut plain, 0, 1), Err(Error::NoMtp)));
}

#[test]
fn chains_longer_than_any_round_are_refused() {
    let checkpoint = with_block(4);
    let mtp = Some(NormExtent::Whole);
    let config = EngineConfig { context: 20, deferred: 9, mtp, ..config(1, 64) };
    let mut engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
    // The context is full: the rows of drafts come behind it.
    engine.prefill(0, &[5; 20], Want::Nothing).unwrap();
    for token in 0..MAX_DEPTH {
        draft(&mut engine, 0, token as u32);
    }
    let step = [DraftStep { slot: 0, token: 9 }];
    let result = engine.draft(&step, Head::Full, &mut Vec::new());
    assert!(matches!(result, Err(Error::ChainTooLong { slot: 0, limit: MAX_DEPTH })));

    // A window makes room, even one of which nothing is accepted.
    engine.reset(0).unwrap();
    engine.prefill(0, &[5; 10], Want::Nothing).unwrap();
    for _ in 0..3 {
        (0..MAX_DEPTH).for_each(|token| drop(draft(&mut engine, 0, token as u32)));
        engine.forward(&[Feed::deferred(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9])]).unwrap();
        engine.decide(0, 0).unwrap();
    }
    assert_eq!(engine.history(0).unwrap(), [5; 10]);
}

#[test]
fn rows_that_wrap_around_the_ring_are_those_of_the_last_tokens() {
    let checkpoint = with_block(0);
    let config = EngineConfig { deferred: 16, mtp: Some(NormExtent::Whole), ..config(1, 64) };
    let mut engine = Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap();
    let tokens = prompt("tiny-f32", "chunk");
    // All of them leave the block behind the first 20 tokens, and the last 16 rows for later.
    let cuts: [&[usize]; 5] = [&[1], &[9], &[16], &[7, 3, 16, 1, 5], &[13, 1, 9]];
    let mut ends = Vec::new();
    for cut in cuts {
        engine.reset(0).unwrap();
        engine.forward(&[Feed::new(0, &tokens[..20], Want::Nothing)]).unwrap();
        let (mut done, mut cut) = (20, cut.iter().cycle());
        while done < 100 {
            let count = (*cut.next().unwrap()).min(100 - done);
            let feed = &tokens[done..done + count];
            if count == 1 {
                engine.forward(&[Feed::new(0, feed, Want::Nothing)]).unwrap();
            } else {
                engine.forward(&[Feed::deferred(0, feed)]).unwrap();
                engine.decide(0, count).unwrap();
            }
            done += count;
        }
        let logits: Vec<f32> = [3, 5, 7].iter().flat_map(|&t| draft(&mut engine, 0, t)).collect();
        ends.push((bits(&logits), engine.state_hash(0).unwrap()));
    }
    assert!(ends.iter().all(|end| *end == ends[0]));
}

#[test]
fn a_block_put_back_drafts_as_a_fresh_one_does() {
    let checkpoint = with_block(4);
    let mut engine = engine(exact_cpu(2, Isa::detect()), &checkpoint, NormExtent::Whole);
    let tokens = prompt("tiny-f32", "budget_edge");
    let fresh = bits(&chain(&mut engine, (&tokens, &[64]), &[5, 9]));
    engine.forward(&[Feed::deferred(0, &[1, 2, 3])]).unwrap();
    let block = engine.take_mtp().unwrap();
    assert!(!engine.has_mtp() && engine.take_mtp().is_none());
    engine.decide(0, 2).unwrap();
    engine.forward(&[Feed::new(0, &[4], Want::Last)]).unwrap();
    let step = [DraftStep { slot: 0, token: 9 }];
    assert!(matches!(engine.draft(&step, Head::Full, &mut Vec::new()), Err(Error::NoMtp)));
    engine.put_mtp(block).unwrap();
    assert!(engine.history(0).unwrap().is_empty());
    assert!(bits(&chain(&mut engine, (&tokens, &[64]), &[5, 9])) == fresh);
}

#[test]
fn a_prompt_beside_a_slot_on_trial_is_followed_as_it_is_alone() {
    let checkpoint = with_block(4);
    let mut engine = engine(cpu(2, Isa::detect()), &checkpoint, NormExtent::Whole);
    // Few enough of slot 1 that all their rows are kept.
    let prompts = [prompt("tiny-f32", "chunk"), prompt("tiny-f32", "eos_first")];
    let mut alone = |tokens: &[u32]| {
        let logits = bits(&chain(&mut engine, (tokens, &[64]), &[5, 9]));
        (logits, engine.state_hash(0).unwrap())
    };
    let expected = [alone(&prompts[0]), alone(&prompts[1])];
    engine.reset(0).unwrap();
    // Slot 1 takes its few tokens in trials while slot 0 takes its many in chunks.
    let mut done = [0, 0];
    while done[0] < prompts[0].len() {
        let chunk = 40.min(prompts[0].len() - done[0]);
        let right = 2.min(prompts[1].len() - done[1]);
        let mut tried = prompts[1][done[1]..done[1] + right].to_vec();
        tried.extend([1, 2, 3]);
        let long = Feed::new(0, &prompts[0][done[0]..done[0] + chunk], Want::Nothing);
        engine.forward(&[Feed::deferred(1, &tried), long]).unwrap();
        engine.decide(1, right).unwrap();
        done = [done[0] + chunk, done[1] + right];
    }
    while done[1] < prompts[1].len() {
        engine.forward(&[Feed::new(1, &prompts[1][done[1]..done[1] + 1], Want::Last)]).unwrap();
        done[1] += 1;
    }
    for (slot, (logits, hash)) in expected.into_iter().enumerate() {
        assert_eq!(engine.state_hash(slot).unwrap(), hash, "slot {slot}");
        let found: Vec<f32> = [5, 9].iter().flat_map(|&t| draft(&mut engine, slot, t)).collect();
        assert!(bits(&found) == logits, "slot {slot}");
    }
}
