//! What the fixtures' manifest says of their models, and how an engine on any backend is held to it.
//! Tests of the GPU backend take this file, too.
#![allow(dead_code, reason = "every test file uses its own part")]

use engine::{Engine, Feed, Probe, Want};
use kernels::Backend;
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

/// The manifest's limit for an f32 engine; the references carry about 1e-5 of rounding themselves.
pub(crate) const LOGIT_LIMIT: f32 = 2e-3;
/// Where the reference's best two logits are further apart than this, the best must agree.
pub(crate) const TOP1_GAP: f32 = 4e-3;

/// Holds logits, `[rows, vocab]`, to recorded ones.
pub(crate) fn check_logits(what: &str, vocab: usize, found: &[f32], expected: &[f32]) {
    let worst = max_abs_difference(found, expected);
    assert!(worst <= LOGIT_LIMIT, "{what}: logits differ by {worst}");
    for (t, (found, expected)) in
        found.chunks_exact(vocab).zip(expected.chunks_exact(vocab)).enumerate()
    {
        let mut order: Vec<usize> = (0..vocab).collect();
        order.sort_by(|&a, &b| expected[b].total_cmp(&expected[a]));
        if expected[order[0]] - expected[order[1]] > TOP1_GAP {
            let best = kernels::scalar::argmax(found).unwrap() as usize;
            assert_eq!(best, order[0], "{what}: best token at position {t}");
        }
    }
}

/// Collects streams and selected blocks.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) streams: Vec<Vec<f32>>,
    pub(crate) blocks: Vec<(usize, Vec<Vec<u32>>)>,
}

impl Probe for Recorder {
    fn wants_streams(&self) -> bool {
        true
    }

    fn streams(&mut self, stage: usize, values: &[f32]) {
        assert_eq!(stage, self.streams.len());
        self.streams.push(values.to_vec());
    }

    fn wants_selection(&self) -> bool {
        true
    }

    fn selected(&mut self, layer: usize, blocks: &[Vec<u32>]) {
        self.blocks.push((layer, blocks.to_vec()));
    }
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

/// Feeds each slot its own prompt in windows that mix all slots, in pieces of different sizes, and
/// returns every slot's logits.
pub(crate) fn interleaved<B: Backend>(
    engine: &mut Engine<B>,
    prompts: &[Vec<u32>],
    sizes: &[usize],
) -> Vec<Vec<f32>> {
    let vocab = engine.hyper_params().vocab;
    let mut logits = vec![Vec::new(); prompts.len()];
    for slot in 0..prompts.len() {
        engine.reset(slot).unwrap();
    }
    let mut step = 0;
    loop {
        let mut feeds = Vec::new();
        for (slot, prompt) in prompts.iter().enumerate() {
            let done = engine.history(slot).unwrap().len();
            let size = sizes[(step + slot) % sizes.len()].min(prompt.len() - done);
            if size > 0 {
                feeds.push((slot, done, size));
            }
        }
        if feeds.is_empty() {
            return logits;
        }
        // The order of slots in the window changes too.
        if step % 2 == 1 {
            feeds.reverse();
        }
        let feed = |&(slot, done, size): &(usize, usize, usize)| {
            Feed::new(slot, &prompts[slot][done..done + size], Want::All)
        };
        let window: Vec<Feed<'_>> = feeds.iter().map(feed).collect();
        let mut rows = &engine.forward(&window).unwrap()[..];
        for (slot, _, size) in feeds {
            let (own, rest) = rows.split_at(size * vocab);
            logits[slot].extend_from_slice(own);
            rows = rest;
        }
        step += 1;
    }
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
