//! Fixtures, and fixtures with something changed.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, TensorType, Writer};

pub(crate) const MODELS: [&str; 3] = ["tiny-f32", "tiny-16bit", "quantmix"];

/// A path below the workspace's root.
pub(crate) fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

pub(crate) fn fixture(name: &str) -> Gguf {
    Gguf::open(path(&format!("fixtures/qwen4exp/{name}.gguf"))).unwrap()
}

pub(crate) fn sample() -> Gguf {
    Gguf::open(path("models/sample/sample.gguf")).unwrap()
}

pub(crate) fn manifest() -> serde_json::Value {
    let text = std::fs::read_to_string(path("fixtures/qwen4exp/manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// One tensor of a file that is being edited.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) ty: TensorType,
    pub(crate) bytes: Vec<u8>,
}

/// A file in memory, to be changed and opened again.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) meta: Metadata,
    pub(crate) tensors: Vec<Entry>,
}

impl Edit {
    pub(crate) fn of(file: &Gguf) -> Self {
        let entry = |info: &gguf::TensorInfo| Entry {
            name: info.name.clone(),
            dims: info.dims.clone(),
            ty: info.ty,
            bytes: file.bytes(info).to_vec(),
        };
        let meta = file.metadata().clone();
        Self { meta, tensors: file.tensors().iter().map(entry).collect() }
    }

    pub(crate) fn set(mut self, key: &str, value: impl Into<gguf::Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    pub(crate) fn unset(mut self, key: &str) -> Self {
        self.meta.remove(key).unwrap();
        self
    }

    pub(crate) fn drop_tensor(mut self, name: &str) -> Self {
        let before = self.tensors.len();
        self.tensors.retain(|entry| entry.name != name);
        assert_eq!(self.tensors.len() + 1, before, "{name}");
        self
    }

    /// Adds a tensor of zeros.
    pub(crate) fn add(mut self, name: &str, dims: &[u64], ty: TensorType) -> Self {
        let rows: u64 = dims[1..].iter().product();
        let len = ty.row_bytes(dims[0]).unwrap() * rows;
        let bytes = vec![0; len as usize];
        self.tensors.push(Entry { name: name.to_owned(), dims: dims.to_vec(), ty, bytes });
        self
    }

    /// Replaces a tensor by zeros of another shape or format.
    pub(crate) fn replace(self, name: &str, dims: &[u64], ty: TensorType) -> Self {
        self.drop_tensor(name).add(name, dims, ty)
    }

    pub(crate) fn rename(mut self, from: &str, to: &str) -> Self {
        self.tensors.iter_mut().find(|entry| entry.name == from).unwrap().name = to.to_owned();
        self
    }

    pub(crate) fn entry(&self, name: &str) -> &Entry {
        self.tensors.iter().find(|entry| entry.name == name).unwrap()
    }

    /// Writes the file and opens it.
    pub(crate) fn open(&self) -> Gguf {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edited.gguf");
        let mut writer = Writer::new(self.meta.clone());
        for Entry { name, dims, ty, bytes } in &self.tensors {
            writer.tensor(name.as_str(), dims, *ty, bytes.as_slice());
        }
        writer.write(&path).unwrap();
        Gguf::from_bytes(&std::fs::read(&path).unwrap()).unwrap()
    }
}

/// The metadata of the released model.
pub(crate) fn released() -> Metadata {
    let mut meta = Metadata::new();
    meta.insert("general.architecture", "qwen4exp");
    let numbers: [(&str, u32); 28] = [
        ("block_count", 48),
        ("context_length", 262_144),
        ("embedding_length", 2560),
        ("vocab_size", 248_320),
        ("attention.head_count", 24),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 256),
        ("attention.value_length", 256),
        ("rope.dimension_count", 64),
        ("expert_count", 512),
        ("expert_used_count", 10),
        ("expert_feed_forward_length", 640),
        ("expert_shared_feed_forward_length", 640),
        ("full_attention_interval", 4),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 128),
        ("ssm.group_count", 16),
        ("ssm.time_step_rank", 48),
        ("ssm.inner_size", 6144),
        ("hyper_connection.count", 4),
        ("hyper_connection.low_rank", 320),
        ("attention.indexer.head_count", 4),
        ("attention.indexer.key_length", 128),
        ("attention.indexer.top_k", 2048),
        ("ple.ngram_size", 3),
        ("ple.heads_per_ngram", 8),
        ("ple.conv_kernel", 4),
        ("embedding_length_per_layer_input", 160),
    ];
    for (key, number) in numbers {
        meta.insert(format!("qwen4exp.{key}"), number);
    }
    let ratios: Vec<i32> = (0..48).map(|n| if n % 4 == 3 { 4 } else { 0 }).collect();
    meta.insert("qwen4exp.attention.compress_ratios", ratios);
    meta.insert("qwen4exp.attention.layer_norm_rms_epsilon", 1e-6_f32);
    meta.insert("qwen4exp.rope.freq_base", 1e7_f32);
    meta.insert("qwen4exp.rope.dimension_sections", vec![11_i32, 11, 10, 0]);
    meta.insert("qwen4exp.ple.layers", vec![1_i32]);
    meta.insert("qwen4exp.ple.eos_token_id", 248_044_u32);
    meta.insert("qwen4exp.ple.image_token_id", 248_056_u32);
    meta.insert("qwen4exp.ple.layer_multipliers", RELEASED_MULTIPLIERS.to_vec());
    meta.insert("qwen4exp.ple.head_offsets", RELEASED_OFFSETS.to_vec());
    meta.insert("qwen4exp.ple.head_vocab_sizes", RELEASED_SIZES.to_vec());
    meta
}

pub(crate) const RELEASED_MULTIPLIERS: [u64; 3] =
    [23_703_573_157_769, 20_109_073_645_365, 8_052_911_324_071];

pub(crate) const RELEASED_SIZES: [u64; 16] = [
    20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077, 20000081,
    20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171,
];

pub(crate) const RELEASED_OFFSETS: [u64; 16] = [
    0, 20000003, 40000026, 60000059, 80000106, 100000165, 120000228, 140000297, 160000374,
    180000455, 200000548, 220000655, 240000802, 260000955, 280001114, 300001275,
];
