//! Random inputs, weights of every format, and a pair of devices to compare.
#![allow(dead_code, reason = "every test file uses its own part")]

use cpu::{Cpu, CpuOptions, Isa};
use gguf::{Bytes, TensorType};
use kernels::Weight;
use kernels::weight::WeightShape;
use std::path::Path;

/// A small generator; tests need repeatable numbers, not good ones.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn values(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.unit() * scale).collect()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 32) as usize % n
    }
}

/// Formats that carry weights.
pub(crate) fn weight_types() -> Vec<TensorType> {
    let is_weight = |ty: &TensorType| {
        let mut out = vec![0.0; ty.block_elements()];
        !ty.is_activation_only()
            && quant::decode_row(*ty, &vec![0; ty.block_bytes()], &mut out).is_ok()
    };
    TensorType::ALL.iter().copied().filter(is_weight).collect()
}

/// A file of the format fixtures.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    std::fs::read(folder.join(name)).unwrap()
}

/// Blocks of a format that another implementation found valid, repeated to any length.
pub(crate) fn blocks(ty: TensorType, count: usize) -> Vec<u8> {
    let all = fixture(&format!("{}.rand.bin", ty.name()));
    let all: Vec<&[u8]> = all.chunks_exact(ty.block_bytes()).collect();
    // A stride that is prime to the number of blocks gives every row other blocks.
    (0..count).flat_map(|i| all[i * 7 % all.len()].to_vec()).collect()
}

/// A weight of valid random blocks.
pub(crate) fn weight(ty: TensorType, shape: WeightShape) -> Weight {
    let values = shape.n_in * shape.n_out * shape.experts;
    let bytes = blocks(ty, values / ty.block_elements());
    Weight::new(ty.name(), ty, shape, Bytes::from(bytes)).unwrap()
}

/// A matrix of f32 values.
pub(crate) fn f32_weight(n_in: usize, n_out: usize, values: &[f32]) -> Weight {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in, n_out, experts: values.len() / (n_in * n_out) };
    Weight::new("f32", TensorType::F32, shape, Bytes::from(bytes)).unwrap()
}

/// The CPU with each instruction set that this processor has.
pub(crate) fn every_isa() -> Vec<Cpu> {
    Isa::available()
        .into_iter()
        .map(|isa| Cpu::new(CpuOptions { threads: 2, isa, ..CpuOptions::default() }))
        .collect()
}

/// Emulated processors run a smaller set.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("TUFF_SLOW_EMULATION").is_some()
}

/// The largest difference relative to the largest magnitude of `expected`.
pub(crate) fn relative_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let worst = found.iter().zip(expected).fold(0f32, |m, (a, b)| {
        let difference = (a - b).abs();
        if difference.is_nan() { f32::INFINITY } else { m.max(difference) }
    });
    worst / largest.max(f32::MIN_POSITIVE)
}

/// Buffers start full of NaN, so that a value which is not written, or read before, shows.
pub(crate) fn poisoned(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}
