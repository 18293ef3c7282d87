//! A token's logits are the same bits however it is computed: alone, in windows of any size, beside
//! other slots, on any number of threads, after a prompt or one by one.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Feed, Want};

/// Prompts that pass the indexer's budget several times are long; one short prompt with EOS inside.
fn prompts_for(model: &str) -> Vec<(String, Vec<u32>)> {
    let wanted = ["single", "eos", "budget_edge", "long"];
    prompts(model).into_iter().filter(|(name, _)| wanted.contains(&name.as_str())).collect()
}

#[test]
fn any_chunks_give_the_same_bits() {
    let chunkings: [&[usize]; 9] =
        [&[1], &[2], &[3], &[4], &[8], &[7], &[64], &[5, 1, 8, 2, 3, 4], &[100, 1]];
    for model in MODELS {
        let mut engine = cpu_engine(model, config(1, 256));
        for (name, tokens) in prompts_for(model) {
            let whole = bits(&logits_in_chunks(&mut engine, &tokens, &[256]));
            for chunks in chunkings {
                let parts = bits(&logits_in_chunks(&mut engine, &tokens, chunks));
                assert!(parts == whole, "{model} {name} in chunks of {chunks:?}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for model in MODELS {
        for (name, tokens) in prompts_for(model) {
            let on = |threads| {
                let mut engine = engine_on(cpu(threads, Isa::detect()), model, config(1, 64));
                bits(&logits_in_chunks(&mut engine, &tokens, &[64]))
            };
            let one = on(1);
            for threads in [2, 3, 5] {
                assert!(on(threads) == one, "{model} {name} on {threads} threads");
            }
        }
    }
}

#[test]
fn every_instruction_set_keeps_its_own_bits() {
    for isa in Isa::available() {
        let mut engine = engine_on(cpu(2, isa), "quantmix", config(1, 64));
        let tokens = prompt("quantmix", "budget_edge");
        let whole = bits(&logits_in_chunks(&mut engine, &tokens, &[64]));
        for size in [1, 2, 3, 4, 8] {
            let parts = bits(&logits_in_chunks(&mut engine, &tokens, &[size]));
            assert!(parts == whole, "{} in chunks of {size}", isa.name());
        }
    }
}

#[test]
fn fault_017_fault_019_slots_beside_each_other_keep_their_own_bits() {
    for model in MODELS {
        let prompts: Vec<Vec<u32>> = prompts(model).into_iter().map(|(_, tokens)| tokens).collect();
        let mut engine = cpu_engine(model, config(prompts.len(), 64));
        let solo: Vec<Vec<u32>> = prompts
            .iter()
            .map(|tokens| bits(&logits_in_chunks(&mut engine, tokens, &[64])))
            .collect();
        for sizes in [&[1][..], &[4, 1, 2, 8, 3]] {
            let beside = interleaved(&mut engine, &prompts, sizes);
            for (slot, (beside, solo)) in beside.iter().zip(&solo).enumerate() {
                assert!(bits(beside) == *solo, "{model}, slot {slot}, pieces of {sizes:?}");
            }
        }
    }
}

#[test]
fn fault_020_prefill_then_decode_equals_decode_alone() {
    for model in MODELS {
        let mut engine = cpu_engine(model, config(1, 256));
        for (name, tokens) in prompts_for(model) {
            let alone = bits(&logits_in_chunks(&mut engine, &tokens, &[1]));
            let split = tokens.len().saturating_sub(20).max(1);
            engine.reset(0).unwrap();
            let mut found = engine.prefill(0, &tokens[..split], Want::All).unwrap();
            for token in &tokens[split..] {
                let token = [*token];
                let feed = Feed::new(0, &token, Want::Last);
                found.extend(engine.forward(&[feed]).unwrap());
            }
            assert!(bits(&found) == alone, "{model} {name}");
        }
    }
}

#[test]
fn wanted_rows_do_not_change_logits() {
    let mut engine = cpu_engine("tiny-f32", config(1, 64));
    let tokens = prompt("tiny-f32", "budget_edge");
    let vocab = engine.hyper_params().vocab;
    let all = logits_in_chunks(&mut engine, &tokens, &[64]);
    engine.reset(0).unwrap();
    let last = engine.prefill(0, &tokens, Want::Last).unwrap();
    assert_eq!(bits(&last), bits(&all[all.len() - vocab..]));
}

#[test]
fn fault_052_alternating_long_and_short_prompts_equal_a_fresh_engine() {
    let model = "tiny-f32";
    let (long, short) = (prompt(model, "long"), prompt(model, "short"));
    let fresh = |tokens: &[u32]| {
        let mut engine = cpu_engine(model, config(1, 64));
        bits(&logits_in_chunks(&mut engine, tokens, &[64]))
    };
    let (fresh_long, fresh_short) = (fresh(&long), fresh(&short));
    let mut engine = cpu_engine(model, config(1, 64));
    for _ in 0..3 {
        assert!(bits(&logits_in_chunks(&mut engine, &long, &[64])) == fresh_long);
        assert!(bits(&logits_in_chunks(&mut engine, &short, &[64])) == fresh_short);
    }
}
