//! Whole models of which the GPU holds a part of the experts: near what others recorded, and the
//! same bits however a token is computed, as long as the split is the same.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::models::*;
use common::{bits, gpu_with, shared_gpu_with};
use cpu::{Cpu, CpuOptions};
use engine::DraftingBlock::Loaded;
use engine::speculation::{Drafter, Head, NoDrafts, Proposer};
use engine::store::Profile;
use engine::{
    Ahead, DraftStep, Engine, Error, ExpertSplit, Generator, Request, StoreSettings, Stores, Want,
    WeightHomes,
};
use gpu::Gpu;
use kernels::Activations;
use model::tokenizer::Tokenizer;
use model::{Checkpoint, Purpose, Tensor};
use std::ops::ControlFlow;

/// With a drafting block.
const PLAIN: &str = "tiny-f32";
/// All kinds of blocks.
const MIXED: &str = "quantmix";

fn size(tensor: &Tensor) -> u64 {
    tensor.bytes.len() as u64
}

/// A split with room for this share of the experts.
fn split(checkpoint: &Checkpoint, share: f64) -> ExpertSplit {
    let experts = checkpoint.tensors().into_iter().filter(|t| t.role.purpose() == Purpose::Experts);
    let bytes = experts.map(size).sum::<u64>() as f64 * share;
    ExpertSplit::new(checkpoint, Loaded, (bytes as u64, &size), None)
}

/// As [`with_engine`], with weights elsewhere too.
fn with_homes(
    activations: Activations,
    checkpoint: &Checkpoint,
    homes: WeightHomes,
    test: impl FnOnce(&mut Engine<Gpu>),
) {
    let Some(mut shared) = shared_gpu_with(activations) else { return };
    let Some(mut lent) = gpu_with(activations) else { return };
    std::mem::swap(&mut lent, &mut shared);
    lent.set_host(move || Cpu::new(CpuOptions { threads: 2, activations, ..Default::default() }));
    let mut engine = Engine::with_homes(lent, checkpoint, sizes(), homes, &mut |_| {}).unwrap();
    test(&mut engine);
    std::mem::swap(engine.backend_mut(), &mut shared);
}

fn with_split(
    activations: Activations,
    model: &str,
    share: f64,
    test: impl FnOnce(&mut Engine<Gpu>),
) {
    let checkpoint = checkpoint(model);
    let split = Some(split(&checkpoint, share));
    with_homes(activations, &checkpoint, WeightHomes { stores: None, split }, test);
}

#[test]
fn recorded_logits_with_no_some_and_all_experts_on_the_gpu() {
    for (model, text) in [(PLAIN, "short"), (MIXED, "budget_edge")] {
        let tokens = prompt(model, text);
        let expected = read_f32(&format!("{model}.{text}.logits.f32"));
        let mut prints = Vec::new();
        let mut found = Vec::new();
        for share in [0.0, 0.4, 1.0] {
            with_split(Activations::F32, model, share, |engine| {
                let vocab = engine.hyper_params().vocab;
                let logits = logits_in_chunks(engine, &tokens, &[256]);
                check_logits(
                    &format!("{model}, {share} of the experts"),
                    vocab,
                    &logits,
                    &expected,
                );
                prints.push(engine.fingerprint());
                found.push(bits(&logits));
            });
        }
        with_engine(Activations::F32, &checkpoint(model), sizes(), |engine| {
            // With all of them it is the model on the GPU, to the bit.
            assert!(bits(&logits_in_chunks(engine, &tokens, &[256])) == found[2], "{model}");
            prints.push(engine.fingerprint());
        });
        // What is where counts for a state that is saved; that it is said at all counts, too.
        prints.sort_unstable();
        prints.dedup();
        assert!(prints.is_empty() || prints.len() == 4, "{model}: {prints:?}");
        assert!(found.is_empty() || found[0] != found[1] && found[1] != found[2], "{model}");
    }
}

/// The manifest's rule, as for a model that is all on the GPU.
#[test]
fn activations_of_8_bits_keep_the_distribution() {
    let (model, text) = (MIXED, "budget_edge");
    let tokens = prompt(model, text);
    let expected = read_f32(&format!("{model}.{text}.logits.f32"));
    let limit = entry(model)["prompts"][text]["bf16_torch_kl"].as_f64().unwrap();
    let limit = 3.0 * limit + 1e-3;
    with_split(Activations::Int8, model, 0.5, |engine| {
        let vocab = engine.hyper_params().vocab;
        let kld = mean_kld(&logits_in_chunks(engine, &tokens, &[256]), &expected, vocab);
        assert!(kld <= limit, "KLD {kld} above {limit}");
    });
}

#[test]
fn windows_chunks_and_slots_give_the_same_bits() {
    for share in if full() { vec![0.0, 0.1, 0.5, 0.9] } else { vec![0.5] } {
        with_split(Activations::Int8, MIXED, share, |engine| {
            let tokens = prompt(MIXED, "budget_edge");
            let whole = bits(&logits_in_chunks(engine, &tokens, &[256]));
            let hash = engine.state_hash(0).unwrap();
            for chunks in [&[1][..], &[5, 6, 7, 8, 2, 3, 4], &[33, 1]] {
                let parts = bits(&logits_in_chunks(engine, &tokens, chunks));
                assert!(parts == whole, "{share} in chunks of {chunks:?}");
                assert_eq!(engine.state_hash(0).unwrap(), hash, "{share}, {chunks:?}: states");
            }
            let prompts = [tokens, prompt(MIXED, "short"), prompt(MIXED, "eos_first")];
            let solo = prompts.clone().map(|p| bits(&logits_in_chunks(engine, &p, &[256])));
            let beside = interleaved(engine, &prompts, &[9, 1, 2, 8, 3]);
            for (slot, (beside, solo)) in beside.iter().zip(&solo).enumerate() {
                assert!(bits(beside) == *solo, "{share}, slot {slot}");
            }
        });
    }
}

/// The drafting block's experts are divided, too.
#[test]
fn recorded_drafts_and_texts_that_no_draft_changes() {
    let case = entry(PLAIN)["mtp"]["cases"].as_object().unwrap().clone();
    let is_it = |case: &&serde_json::Value| {
        case["attention"] == "sparse" && case["hnorm"] == "whole" && case["prompt"] == "eos"
    };
    let case = case.values().find(is_it).unwrap().clone();
    let mut checkpoint = checkpoint(PLAIN);
    checkpoint.hp.mtp_block = 4;
    checkpoint.mtp.as_mut().unwrap().layer.kind = model::LayerKind::Attention { block: 4 };
    let homes = WeightHomes { stores: None, split: Some(split(&checkpoint, 0.4)) };
    with_homes(Activations::F32, &checkpoint, homes, |engine| {
        logits_in_chunks(engine, &prompt(PLAIN, "eos"), &[2, 7]);
        let mut following = vec![case["first_token"].as_u64().unwrap() as u32];
        following.extend(ids(&case["drafts"]));
        following.pop();
        let mut found = Vec::new();
        for token in following {
            let mut logits = Vec::new();
            engine.draft(&[DraftStep { slot: 0, token }], Head::Full, &mut logits).unwrap();
            found.extend(logits);
        }
        let expected = read_f32(case["logits"]["file"].as_str().unwrap());
        assert!(max_abs_difference(&found, &expected) <= LOGIT_LIMIT);
    });

    let file = gguf::Gguf::open(fixture("tiny-f32.gguf")).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    with_split(Activations::Int8, PLAIN, 0.4, |engine| {
        let prompt = prompt(PLAIN, "short");
        let text = |engine: &mut Engine<Gpu>, proposer: &mut dyn Proposer<Gpu>| {
            engine.reset(0).unwrap();
            let request = Request { prompt: &prompt, max_tokens: Some(10), ..Request::default() };
            let mut generator = Generator { engine, slot: 0, tokenizer: &tokenizer, proposer };
            let summary = generator.generate(&request, &mut |_| ControlFlow::Continue(())).unwrap();
            (summary.tokens, engine.state_hash(0).unwrap())
        };
        let plain = text(engine, &mut NoDrafts);
        let mut drafter = Drafter::new("mtp:3".parse().unwrap(), engine);
        assert!(text(engine, &mut drafter) == plain);
    });
}

/// A state goes on where it was made and where the same experts are on the GPU, nowhere else.
#[test]
fn a_state_of_another_split_is_refused() {
    let tokens = prompt(PLAIN, "chunk")[..66].to_vec();
    let mut saved = None;
    let mut take = |engine: &mut Engine<Gpu>| {
        engine.prefill(0, &tokens, Want::Nothing).unwrap();
        let snapshot = engine.snapshot(0).unwrap();
        let pieces: Vec<_> = (0..snapshot.pieces()).map(|i| engine.piece(0, i).unwrap()).collect();
        saved = Some((pieces, snapshot, engine.state_hash(0).unwrap()));
    };
    with_split(Activations::Int8, PLAIN, 0.4, &mut take);
    let Some((pieces, snapshot, hash)) = saved else { return };
    with_split(Activations::Int8, PLAIN, 0.4, |engine| {
        engine.restore(1, &pieces, &snapshot).unwrap();
        assert_eq!(engine.state_hash(1).unwrap(), hash);
    });
    with_split(Activations::Int8, PLAIN, 0.5, |engine| {
        let refused = engine.restore(1, &pieces, &snapshot);
        assert!(matches!(refused, Err(Error::ForeignState)), "{refused:?}");
    });
    with_engine(Activations::Int8, &checkpoint(PLAIN), sizes(), |engine| {
        let refused = engine.restore(1, &pieces, &snapshot);
        assert!(matches!(refused, Err(Error::ForeignState)), "{refused:?}");
    });
}

/// Where there is no memory for the others either, they are read as they are wanted.
#[test]
fn experts_of_a_store_give_the_same_bits_as_those_of_the_mapped_file() {
    let tokens = prompt(MIXED, "budget_edge");
    let checkpoint = checkpoint(MIXED);
    let split = Some(split(&checkpoint, 0.5));
    let mut want = None;
    let homes = WeightHomes { stores: None, split: split.clone() };
    with_homes(Activations::Int8, &checkpoint, homes, |engine| {
        want = Some(bits(&logits_in_chunks(engine, &tokens, &[64])));
    });
    let Some(want) = want else { return };
    let settings = StoreSettings { experts: Some(0), table: 0, ..StoreSettings::default() };
    let error = Stores::open(&checkpoint, Loaded, settings).unwrap_err();
    let Error::Store(engine::store::StoreError::TooSmall { need, .. }) = error else {
        panic!("{error}");
    };
    for ahead in [Ahead::Never, Ahead::NextLayer] {
        let settings = StoreSettings { experts: Some(need), ahead, ..settings };
        let stores = Some(Stores::open(&checkpoint, Loaded, settings).unwrap());
        let homes = WeightHomes { stores, split: split.clone() };
        with_homes(Activations::Int8, &checkpoint, homes, |engine| {
            for chunks in [&[64][..], &[3, 1, 17]] {
                assert!(bits(&logits_in_chunks(engine, &tokens, chunks)) == want, "{chunks:?}");
            }
            let counters = engine.stores().unwrap().counters();
            assert!(counters.bytes > 0 && counters.failed == 0, "{counters:?}");
        });
    }
}

#[test]
fn hot_experts_are_held_first() {
    let checkpoint = checkpoint(PLAIN);
    let model = engine::model_number(&checkpoint);
    let of = |hot: Option<&Profile>| {
        let experts = checkpoint.tensors().into_iter();
        let experts = experts.filter(|t| t.role.purpose() == Purpose::Experts);
        let bytes = experts.map(size).sum::<u64>() / 4;
        ExpertSplit::new(&checkpoint, Loaded, (bytes, &size), hot)
    };
    let evenly = of(None);
    assert_eq!(evenly.held(), evenly.count() / 4);
    let count = evenly.count();
    let last = Profile { model, uses: (0..count as u32).collect() };
    assert_eq!(of(Some(&last)).held(), evenly.held());
    assert_ne!(of(Some(&last)), evenly);
    // A list of another model says nothing of this one.
    assert_eq!(of(Some(&Profile { model: model ^ 1, ..last })), evenly);
}
