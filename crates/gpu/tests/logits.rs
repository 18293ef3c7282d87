//! Whole models on the GPU against an implementation of others: logits, drafts, streams, states and
//! chosen blocks.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::models::*;
use engine::speculation::Head;
use engine::{DraftStep, Engine, EngineConfig, Feed, NormExtent, Want};
use gpu::Gpu;
use kernels::Activations;
use kernels::gdn::GdnSlot;
use model::{Checkpoint, LayerKind};

/// States and streams pass through fewer layers than logits; rounding in them stays far below this,
/// and so do divisions and exponentials that are off by some units in the last place.
const STATE_LIMIT: f32 = 1e-4;

/// An engine with activations in f32, whatever the weights' format.
fn with_exact(checkpoint: &Checkpoint, config: EngineConfig, test: impl FnOnce(&mut Engine<Gpu>)) {
    with_engine(Activations::F32, checkpoint, config, test);
}

/// The texts of a model that are checked: those named, or all.
fn texts(model: &str, few: &[&str]) -> Vec<(String, Vec<u32>)> {
    let wanted = |(name, _): &(String, Vec<u32>)| full() || few.contains(&name.as_str());
    prompts(model).into_iter().filter(wanted).collect()
}

#[test]
fn recorded_logits_and_blocks() {
    let few: [(&str, &[&str]); 3] = [
        ("tiny-f32", &["single", "short", "eos_first", "chunk"]),
        ("tiny-16bit", &["eos"]),
        ("quantmix", &["budget_edge"]),
    ];
    assert_eq!(few.map(|(model, _)| model), MODELS);
    for (model, few) in few {
        with_exact(&checkpoint(model), sizes(), |engine| {
            let vocab = engine.hyper_params().vocab;
            for (name, tokens) in texts(model, few) {
                let (found, recorder) = record(engine, &tokens, Want::All);
                let expected = read_f32(&format!("{model}.{name}.logits.f32"));
                let what = format!("{model} {name}");
                check_logits(&what, vocab, &found, &expected);
                check_blocks(&what, &recorder, &entry(model)["prompts"][&name]["qsa_blocks"]);
            }
        });
    }
}

/// The manifest's rule for low precision: a sound engine with 8-bit activations stays within 3
/// times what bf16 arithmetic alone costs, plus 1e-3.
#[test]
fn activations_of_8_bits_keep_the_distribution() {
    let model = "quantmix";
    let prompts_of = entry(model)["prompts"].clone();
    with_engine(Activations::Int8, &checkpoint(model), sizes(), |engine| {
        let vocab = engine.hyper_params().vocab;
        for (name, tokens) in texts(model, &["short", "budget_edge"]) {
            let found = logits_in_chunks(engine, &tokens, &[256]);
            let expected = read_f32(&format!("{model}.{name}.logits.f32"));
            let kld = mean_kld(&found, &expected, vocab);
            let limit = 3.0 * prompts_of[&name]["bf16_torch_kl"].as_f64().unwrap() + 1e-3;
            println!("{name}: KLD {kld:.2e} of at most {limit:.2e}");
            assert!(kld <= limit, "{name}: KLD {kld} above {limit}");
        }
    });
}

fn record(engine: &mut Engine<Gpu>, tokens: &[u32], want: Want) -> (Vec<f32>, Recorder) {
    engine.reset(0).unwrap();
    let mut recorder = Recorder::default();
    let logits = engine.forward_probed(&[Feed::new(0, tokens, want)], &mut recorder).unwrap();
    (logits, recorder)
}

fn check_blocks(what: &str, recorder: &Recorder, expected: &serde_json::Value) {
    let Some(layers) = expected.as_object() else { return };
    for (layer, rows) in layers {
        let layer: usize = layer.parse().unwrap();
        let (_, found) = recorder.blocks.iter().find(|(n, _)| *n == layer).unwrap();
        for row in rows.as_array().unwrap() {
            let position = row[0].as_u64().unwrap() as usize;
            let found = &found[position];
            assert_eq!(*found, ids(&row[1]), "{what}, layer {layer}, position {position}");
        }
    }
}

fn assert_near(what: &str, found: f32, expected: f32) {
    let difference = (found - expected).abs();
    assert!(difference <= STATE_LIMIT, "{what}: {difference}");
}

#[test]
fn recorded_streams_and_states() {
    let model = "tiny-f32";
    with_exact(&checkpoint(model), sizes(), |engine| {
        let tokens = prompt(model, "eos");
        let (_, recorder) = record(engine, &tokens, Want::Nothing);

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

        let columns = engine.hyper_params().gdn.conv_kernel - 1;
        let GdnSlot { s, conv } = engine.export_gdn(0, 0).unwrap().unwrap();
        let worst = max_abs_difference(&s, &read_f32("tiny-f32.eos.gdn0.f32"));
        assert!(worst <= STATE_LIMIT, "delta-rule state: {worst}");

        let channels = conv.len() / columns;
        for (at, &expected) in read_f32("tiny-f32.eos.conv0.f32").iter().enumerate() {
            let (c, k) = (at / columns, at % columns);
            assert_near("convolution", conv[k * channels + c], expected);
        }

        let history = engine.export_ple(0).unwrap().unwrap();
        let expected = read_f32("tiny-f32.eos.pleconv.f32");
        let columns = expected.len() / wide;
        for (at, &expected) in expected.iter().enumerate() {
            let (c, k) = (at / columns, at % columns);
            assert_near("n-gram history", history[k * wide + c], expected);
        }
    });
}

#[test]
fn fault_028_recorded_draft_logits() {
    let cases = entry("tiny-f32")["mtp"]["cases"].as_object().unwrap().clone();
    assert_eq!(cases.len(), 12);
    let mut checkpoint = checkpoint("tiny-f32");
    for (attention, block) in [("sparse", 4), ("dense", 0)] {
        checkpoint.hp.mtp_block = block;
        checkpoint.mtp.as_mut().unwrap().layer.kind = LayerKind::Attention { block };
        for (hnorm, extent) in [("whole", NormExtent::Whole), ("grouped", NormExtent::PerStream)] {
            let config = EngineConfig { mtp: Some(extent), ..sizes() };
            let is_it =
                |case: &serde_json::Value| case["attention"] == attention && case["hnorm"] == hnorm;
            with_exact(&checkpoint, config, |engine| {
                for (name, case) in cases.iter().filter(|(_, case)| is_it(case)) {
                    // One text of each kind of block, unless all are wanted.
                    if full() || case["prompt"] == "eos" {
                        check_drafts(engine, name, case);
                    }
                }
            });
        }
    }
}

fn check_drafts(engine: &mut Engine<Gpu>, name: &str, case: &serde_json::Value) {
    let tokens = prompt("tiny-f32", case["prompt"].as_str().unwrap());
    let mut following = vec![case["first_token"].as_u64().unwrap() as u32];
    following.extend(ids(&case["drafts"]));
    following.pop();
    let expected = read_f32(case["logits"]["file"].as_str().unwrap());
    // In passes as large as what is kept, and in small ones.
    for chunks in [&[64][..], &[2, 7]] {
        logits_in_chunks(engine, &tokens, chunks);
        let mut found = Vec::new();
        for &token in &following {
            let mut logits = Vec::new();
            engine.draft(&[DraftStep { slot: 0, token }], Head::Full, &mut logits).unwrap();
            found.extend(logits);
        }
        let worst = max_abs_difference(&found, &expected);
        assert!(worst <= LOGIT_LIMIT, "{name} in chunks of {chunks:?}: {worst}");
    }
}
