//! Logits, streams, states, table rows and selected blocks against an implementation of others.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Engine, Feed, Want};
use kernels::Backend;
use kernels::gdn::GdnSlot;
use kernels::reference::Reference;

/// States and streams pass through fewer layers than logits; rounding in them stays far below this.
const STATE_LIMIT: f32 = 1e-4;

fn every_prompt<B: Backend>(backend: B, model: &str) {
    let mut engine = engine_on(backend, model, config(1, 256));
    let vocab = engine.hyper_params().vocab;
    for (name, tokens) in prompts(model) {
        let found = logits_in_chunks(&mut engine, &tokens, &[256]);
        let expected = read_f32(&format!("{model}.{name}.logits.f32"));
        let what = format!("{model} {name} on {}", engine.backend_name());
        check_logits(&what, vocab, &found, &expected);
    }
}

#[test]
fn reference_tiny_f32() {
    every_prompt(Reference, "tiny-f32");
}

#[test]
fn reference_tiny_16bit() {
    every_prompt(Reference, "tiny-16bit");
}

#[test]
fn reference_quantmix() {
    every_prompt(Reference, "quantmix");
}

#[test]
fn cpu_with_every_instruction_set_of_this_processor() {
    for isa in Isa::available() {
        for model in MODELS {
            every_prompt(exact_cpu(2, isa), model);
        }
    }
}

/// The manifest's rule for low precision: a sound engine with 8-bit activations stays within 3
/// times what bf16 arithmetic alone costs, plus 1e-3.
#[test]
fn activations_of_8_bits_keep_the_distribution() {
    let prompts_of = entry("quantmix")["prompts"].clone();
    for isa in Isa::available() {
        let mut engine = engine_on(cpu(2, isa), "quantmix", config(1, 256));
        let vocab = engine.hyper_params().vocab;
        for (name, tokens) in prompts("quantmix") {
            let found = logits_in_chunks(&mut engine, &tokens, &[256]);
            let expected = read_f32(&format!("quantmix.{name}.logits.f32"));
            let kld = mean_kld(&found, &expected, vocab);
            let limit = 3.0 * prompts_of[&name]["bf16_torch_kl"].as_f64().unwrap() + 1e-3;
            println!("{} {name}: KLD {kld:.2e} of at most {limit:.2e}", isa.name());
            assert!(kld <= limit, "{} {name}: KLD {kld} above {limit}", isa.name());
        }
    }
}

fn record<B: Backend>(engine: &mut Engine<B>, tokens: &[u32]) -> Recorder {
    engine.reset(0).unwrap();
    let mut recorder = Recorder::default();
    let feed = Feed::new(0, tokens, Want::Nothing);
    engine.forward_probed(&[feed], &mut recorder).unwrap();
    recorder
}

fn streams_and_states<B: Backend>(backend: B) {
    let mut engine = engine_on(backend, "tiny-f32", config(1, 64));
    let tokens = prompt("tiny-f32", "eos");
    let recorder = record(&mut engine, &tokens);

    // The dump is [T, stages, S * H], a recording [stages][T, S * H].
    let expected = read_f32("tiny-f32.eos.streams.f32");
    let stages = recorder.streams.len();
    let wide = expected.len() / tokens.len() / stages;
    for (at, expected) in expected.chunks_exact(wide).enumerate() {
        let (t, stage) = (at / stages, at % stages);
        let found = &recorder.streams[stage][t * wide..][..wide];
        let worst = max_abs_difference(found, expected);
        assert!(worst <= STATE_LIMIT, "streams at position {t}, stage {stage}: {worst}");
    }

    let gdn = engine.hyper_params().gdn;
    let GdnSlot { s, conv } = engine.export_gdn(0, 0).unwrap().unwrap();
    // The dump has the file's own order of value heads.
    let expected = read_f32("tiny-f32.eos.gdn0.f32");
    let worst = max_abs_difference(&s, &expected);
    assert!(worst <= STATE_LIMIT, "delta-rule state: {worst}");

    let expected = read_f32("tiny-f32.eos.conv0.f32");
    let columns = gdn.conv_kernel - 1;
    let channels = conv.len() / columns;
    for (at, expected) in expected.iter().enumerate() {
        let (c, k) = (at / columns, at % columns);
        let difference = (conv[k * channels + c] - expected).abs();
        assert!(difference <= STATE_LIMIT, "conv channel {c}, column {k}: {difference}");
    }

    let history = engine.export_ple(0).unwrap().unwrap();
    let expected = read_f32("tiny-f32.eos.pleconv.f32");
    let columns = expected.len() / wide;
    for (at, expected) in expected.iter().enumerate() {
        let (c, k) = (at / columns, at % columns);
        let difference = (history[k * wide + c] - expected).abs();
        assert!(difference <= STATE_LIMIT, "n-gram channel {c}, column {k}: {difference}");
    }
}

#[test]
fn reference_streams_and_states() {
    streams_and_states(Reference);
}

#[test]
fn cpu_streams_and_states() {
    streams_and_states(cpu(2, Isa::detect()));
}

fn selected_blocks<B: Backend>(mut engine: Engine<B>, model: &str) {
    for (name, tokens) in prompts(model) {
        let expected = &entry(model)["prompts"][&name]["qsa_blocks"];
        let Some(layers) = expected.as_object() else { continue };
        let recorder = record(&mut engine, &tokens);
        for (layer, rows) in layers {
            let layer: usize = layer.parse().unwrap();
            let (_, found) = recorder.blocks.iter().find(|(n, _)| *n == layer).unwrap();
            for row in rows.as_array().unwrap() {
                let position = row[0].as_u64().unwrap() as usize;
                let what = format!("{model} {name}, layer {layer}, position {position}");
                assert_eq!(found[position], ids(&row[1]), "{what}");
            }
        }
    }
}

#[test]
fn fault_050_selected_blocks_on_both_backends() {
    for model in MODELS {
        selected_blocks(engine_on(Reference, model, config(1, 256)), model);
        // Rounded activations may tip a block at the edge of the budget.
        selected_blocks(engine_on(exact_cpu(2, Isa::detect()), model, config(1, 256)), model);
    }
}
