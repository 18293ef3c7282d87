//! The fixture models in engines on the GPU, and what the manifest says of them.

use super::{gpu_with, shared_gpu_with};
use engine::{Engine, EngineConfig, Feed, NormExtent, Want};
use gguf::Gguf;
use gpu::Gpu;
use kernels::{Activations, Backend};
use model::Checkpoint;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const MODELS: [&str; 3] = ["tiny-f32", "tiny-16bit", "quantmix"];

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen4exp").join(name)
}

pub(crate) fn read_f32(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture(name)).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The manifest's entry of model `name`.
pub(crate) fn entry(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let models = manifest["models"].as_array().unwrap().clone();
    models.into_iter().find(|m| m["file"] == format!("{name}.gguf")).unwrap()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// `(name, tokens)` of every prompt of model `name`.
pub(crate) fn prompts(name: &str) -> Vec<(String, Vec<u32>)> {
    let entry = entry(name);
    let prompts = entry["prompts"].as_object().unwrap();
    prompts.iter().map(|(name, prompt)| (name.clone(), ids(&prompt["tokens"]))).collect()
}

pub(crate) fn prompt(model: &str, name: &str) -> Vec<u32> {
    ids(&entry(model)["prompts"][name]["tokens"])
}

/// A fixture model; the one that has a drafting block in a second file comes with it.
pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    let open = |name: &str| Gguf::open(fixture(&format!("{name}.gguf"))).unwrap();
    match name {
        "tiny-f32" => Checkpoint::load_with_mtp(&open("tiny-f32"), &open("tiny-f32-mtp")).unwrap(),
        _ => Checkpoint::load(&open(name)).unwrap(),
    }
}

/// Whether all texts are wanted. A software renderer takes some 40 ms for a token of these models,
/// so without `TUFF_GPU_FULL` a few that meet every kernel must do.
pub(crate) fn full() -> bool {
    std::env::var_os("TUFF_GPU_FULL").is_some()
}

/// Sizes that do for every test.
pub(crate) fn sizes() -> EngineConfig {
    EngineConfig {
        slots: 3,
        context: 512,
        chunk: 256,
        deferred: 9,
        mtp: Some(NormExtent::Whole),
        ..EngineConfig::default()
    }
}

/// Lends the shared GPU for these activations to an engine, if there is one: what was compiled for
/// other engines is there for this one.
pub(crate) fn with_engine(
    activations: Activations,
    checkpoint: &Checkpoint,
    config: EngineConfig,
    test: impl FnOnce(&mut Engine<Gpu>),
) {
    let Some(mut shared) = shared_gpu_with(activations) else { return };
    let Some(mut lent) = gpu_with(activations) else { return };
    std::mem::swap(&mut lent, &mut shared);
    let mut engine = Engine::new(lent, checkpoint, config, &mut |_| {}).unwrap();
    test(&mut engine);
    std::mem::swap(engine.backend_mut(), &mut shared);
}

/// All logits of `tokens`, fed to a fresh slot 0 in the given chunks (the last one repeated).
pub(crate) fn logits_in_chunks<B: Backend>(
    engine: &mut Engine<B>,
    tokens: &[u32],
    chunks: &[usize],
) -> Vec<f32> {
    engine.reset(0).unwrap();
    let (mut all, mut rest, mut sizes) = (Vec::new(), tokens, chunks.iter());
    let mut size = chunks[0];
    while !rest.is_empty() {
        size = *sizes.next().unwrap_or(&size);
        let (now, after) = rest.split_at(size.min(rest.len()));
        all.extend(engine.forward(&[Feed::new(0, now, Want::All)]).unwrap());
        rest = after;
    }
    all
}

pub(crate) fn max_abs_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Mean Kullback-Leibler divergence of `found` from `expected`, in nats.
pub(crate) fn mean_kld(found: &[f32], expected: &[f32], vocab: usize) -> f64 {
    let log_softmax = |row: &[f32]| -> Vec<f64> {
        let largest = row.iter().copied().fold(f32::MIN, f32::max);
        let total: f64 = row.iter().map(|x| f64::from(x - largest).exp()).sum();
        row.iter().map(|x| f64::from(x - largest) - total.ln()).collect()
    };
    let rows = found.chunks_exact(vocab).zip(expected.chunks_exact(vocab));
    let kld = |(found, expected): (&[f32], &[f32])| -> f64 {
        let (found, expected) = (log_softmax(found), log_softmax(expected));
        expected.iter().zip(&found).map(|(e, f)| e.exp() * (e - f)).sum()
    };
    rows.map(kld).sum::<f64>() / (found.len() / vocab) as f64
}
