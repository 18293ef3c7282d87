//! The fixture models: loading them, and what the manifest says of them.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod jobs;
pub(crate) mod turns;

use cpu::{Cpu, CpuOptions, Isa};
use engine::{Engine, EngineConfig, Feed, Want};
use kernels::{Activations, Backend};
use model::Checkpoint;
use serde_json::Value;
use std::path::PathBuf;

pub(crate) const MODELS: [&str; 3] = ["tiny-f32", "tiny-16bit", "quantmix"];

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("fixtures/qwen4exp").join(name)
}

pub(crate) fn read_f32(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture(name)).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub(crate) fn manifest() -> Value {
    let text = std::fs::read_to_string(fixture("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The manifest's entry of model `name`.
pub(crate) fn entry(name: &str) -> Value {
    let models = manifest()["models"].as_array().unwrap().clone();
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

pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    let file = gguf::Gguf::open(fixture(&format!("{name}.gguf"))).unwrap();
    Checkpoint::load(&file).unwrap()
}

pub(crate) fn config(slots: usize, chunk: usize) -> EngineConfig {
    EngineConfig { slots, context: 512, chunk, ..EngineConfig::default() }
}

pub(crate) fn engine_on<B: Backend>(backend: B, model: &str, config: EngineConfig) -> Engine<B> {
    Engine::new(backend, &checkpoint(model), config, &mut |_| {}).unwrap()
}

pub(crate) fn cpu(threads: usize, isa: Isa) -> Cpu {
    Cpu::new(CpuOptions { threads, isa, ..CpuOptions::default() })
}

/// The CPU with activations kept in f32, whatever the weights' format.
pub(crate) fn exact_cpu(threads: usize, isa: Isa) -> Cpu {
    Cpu::new(CpuOptions { threads, isa, activations: Activations::F32 })
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

pub(crate) fn cpu_engine(model: &str, config: EngineConfig) -> Engine<Cpu> {
    engine_on(cpu(2, Isa::detect()), model, config)
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

/// Bits, so that `==` also tells -0.0 from 0.0.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

pub(crate) fn max_abs_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
