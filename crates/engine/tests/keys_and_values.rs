//! Rounded keys and values, stretched positions, and contexts that are refused.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Engine, EngineConfig, Error, Feed, Want};
use kernels::KvType;
use kernels::reference::Reference;
use kernels::rope::RopeScaling;
use model::LayerKind;

fn kv_config(slots: usize, kv: KvType) -> EngineConfig {
    EngineConfig { kv, ..config(slots, 256) }
}

#[test]
fn rounded_keys_and_values_give_the_same_bits_in_any_chunks_and_company() {
    for kv in [KvType::F16, KvType::Q8_0] {
        let mut engine = cpu_engine("quantmix", kv_config(2, kv));
        let tokens = prompt("quantmix", "long");
        let whole = bits(&logits_in_chunks(&mut engine, &tokens, &[256]));
        for chunks in [&[1][..], &[3], &[5, 1, 8, 2], &[100, 1]] {
            let parts = bits(&logits_in_chunks(&mut engine, &tokens, chunks));
            assert!(parts == whole, "{kv} in chunks of {chunks:?}");
        }
        let other = prompt("quantmix", "chunk");
        engine.reset(0).unwrap();
        engine.reset(1).unwrap();
        let mut beside = Vec::new();
        for (a, b) in tokens.chunks(4).zip(other.chunks(2)) {
            let feeds = [Feed::new(1, b, Want::Nothing), Feed::new(0, a, Want::All)];
            beside.extend(engine.forward(&feeds).unwrap());
        }
        assert!(bits(&beside) == whole, "{kv} beside another");
    }
}

#[test]
fn the_cpu_agrees_with_the_reference_on_rounded_and_stretched_caches() {
    let yarn = RopeScaling::yarn(2.0, 64);
    for (kv, rope_scaling) in
        [(KvType::F16, RopeScaling::None), (KvType::Q8_0, yarn), (KvType::F32, yarn)]
    {
        let sizes = EngineConfig { rope_scaling, ..kv_config(1, kv) };
        let tokens = &prompt("tiny-f32", "chunk")[..96];
        let mut cpu = engine_on(exact_cpu(2, Isa::detect()), "tiny-f32", sizes);
        let mut reference = engine_on(Reference, "tiny-f32", sizes);
        let found = logits_in_chunks(&mut cpu, tokens, &[32]);
        let expected = logits_in_chunks(&mut reference, tokens, &[32]);
        // Keys at the edge of two codes may be stored as either, and a code of 8 bits is a large
        // step.
        let divergence = mean_kld(&found, &expected, cpu.hyper_params().vocab);
        let limit = match kv {
            KvType::F32 => 1e-10,
            KvType::F16 => 1e-6,
            KvType::Q8_0 => 1e-5,
        };
        assert!(divergence <= limit, "{kv} {rope_scaling:?}: {divergence}");
    }
}

#[test]
fn exported_caches_are_what_is_stored() {
    let tokens = prompt("tiny-f32", "short");
    let mut of = [KvType::F32, KvType::F16, KvType::Q8_0].map(|kv| {
        let mut engine = cpu_engine("tiny-f32", kv_config(1, kv));
        engine.prefill(0, &tokens, Want::Nothing).unwrap();
        let layers = engine.hyper_params().layers.len();
        let first = (0..layers).find_map(|layer| engine.export_qsa(layer, 0).unwrap());
        first.unwrap()
    });
    let [exact, f16, q8_0] = &mut of;
    assert_eq!(exact.index, f16.index);
    let worst = |found: &[f32], exact: &[f32]| {
        assert_eq!(found.len(), exact.len());
        let largest = exact.iter().fold(0f32, |m, x| m.max(x.abs()));
        found.iter().zip(exact).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / largest
    };
    for (found, exact) in [(&f16.k, &exact.k), (&f16.v, &exact.v)] {
        assert!(worst(found, exact) > 0.0 && worst(found, exact) < 1.0 / 2048.0);
    }
    assert!(worst(&q8_0.v, &exact.v) < 0.51 / 127.0);
}

#[test]
fn a_factor_of_one_changes_no_bit() {
    let tokens = prompt("quantmix", "budget_edge");
    let of = |rope_scaling| {
        let sizes = EngineConfig { rope_scaling, ..config(1, 64) };
        let mut engine = cpu_engine("quantmix", sizes);
        bits(&logits_in_chunks(&mut engine, &tokens, &[64]))
    };
    let plain = of(RopeScaling::None);
    assert!(of(RopeScaling::yarn(1.0, 64)) == plain);
    assert!(of(RopeScaling::yarn(2.0, 64)) != plain);
}

#[test]
fn a_context_beyond_the_model_s_needs_scaling() {
    let checkpoint = checkpoint("tiny-f32");
    let own = checkpoint.hp.context;
    let new = |context, rope_scaling| {
        let sizes = EngineConfig { context, rope_scaling, ..config(1, 64) };
        Engine::new(cpu(1, Isa::detect()), &checkpoint, sizes, &mut |_| {})
    };
    assert!(new(own, RopeScaling::None).is_ok());
    let error = new(own + 1, RopeScaling::None).unwrap_err();
    assert!(matches!(error, Error::ContextTooLong { limit, scale: 2, .. } if limit == own));
    assert!(error.to_string().contains("--rope-scaling yarn --rope-scale 2"), "{error}");
    assert!(new(2 * own, RopeScaling::yarn(2.0, own)).is_ok());
    assert!(new(2 * own + 1, RopeScaling::yarn(2.0, own)).is_err());
}

#[test]
fn bytes_of_a_token_follow_the_type() {
    let checkpoint = checkpoint("tiny-f32");
    let layers = checkpoint.hp.layers.iter().filter(|kind| **kind != LayerKind::Gdn).count();
    let width = checkpoint.hp.attn.kv_heads * checkpoint.hp.attn.head_dim;
    let bytes = |kv| engine::token_bytes(&checkpoint.hp, &kv_config(1, kv));
    let saved = bytes(KvType::F32) - bytes(KvType::F16);
    assert_eq!(saved as usize, 2 * layers * 2 * width);
    assert!(bytes(KvType::Q8_0) < bytes(KvType::F16));
}
