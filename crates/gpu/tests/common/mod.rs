//! The GPU to test on, and weights of valid random blocks.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod models;
pub(crate) mod qsa;
pub(crate) mod script;

use gguf::TensorType;
use gpu::{Gpu, GpuOptions, Route};
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Weight};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The GPU named by `TUFF_GPU`, the preferred one, or a software renderer. Without any the test
/// that asks is skipped, unless `TUFF_GPU_TESTS` is set: then it fails.
pub(crate) fn gpu() -> Option<Gpu> {
    gpu_with(Activations::Int8)
}

/// As [`gpu`], with activations of at least this precision.
pub(crate) fn gpu_with(activations: Activations) -> Option<Gpu> {
    open(activations, None)
}

/// As [`gpu_with`], with kernels on this route.
pub(crate) fn gpu_on(activations: Activations, route: Route) -> Option<Gpu> {
    open(activations, Some(route))
}

fn open(activations: Activations, route: Option<Route>) -> Option<Gpu> {
    let named = std::env::var("TUFF_GPU").ok();
    let names = if named.is_some() { vec![named] } else { vec![None, Some("llvmpipe".into())] };
    let mut reason = String::new();
    for adapter in names {
        match Gpu::new(&GpuOptions { adapter, activations: Some(activations), route }) {
            Ok(gpu) => return Some(gpu),
            Err(error) => reason = error.to_string(),
        }
    }
    assert!(std::env::var_os("TUFF_GPU_TESTS").is_none(), "{reason}");
    println!("skipped: {reason}");
    None
}

/// As [`gpu`], one for all tests of a file: its kernels are compiled once.
pub(crate) fn shared_gpu() -> Option<MutexGuard<'static, Gpu>> {
    shared_gpu_with(Activations::Int8)
}

/// As [`gpu_with`], one for all tests of a file.
pub(crate) fn shared_gpu_with(activations: Activations) -> Option<MutexGuard<'static, Gpu>> {
    type Shared = LazyLock<Option<Mutex<Gpu>>>;
    static INT8: Shared = LazyLock::new(|| gpu_with(Activations::Int8).map(Mutex::new));
    static EXACT: Shared = LazyLock::new(|| gpu_with(Activations::F32).map(Mutex::new));
    let shared = match activations {
        Activations::Int8 => &INT8,
        Activations::F32 => &EXACT,
    };
    // A test that failed leaves nothing behind that another one sees.
    shared.as_ref().map(|gpu| gpu.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Blocks of a format that another implementation found valid, repeated to any length.
pub(crate) fn blocks(ty: TensorType, file: &str, count: usize) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    let all = std::fs::read(folder.join(format!("{}.{file}.bin", ty.name()))).unwrap();
    let all: Vec<&[u8]> = all.chunks_exact(ty.block_bytes()).collect();
    // A stride that is prime to the number of blocks gives every row other blocks.
    (0..count).flat_map(|i| all[i * 7 % all.len()].to_vec()).collect()
}

/// A weight of the random blocks of a file of the format fixtures.
pub(crate) fn weight(ty: TensorType, file: &str, shape: WeightShape) -> Weight {
    let values = shape.n_in * shape.n_out * shape.experts;
    let bytes = blocks(ty, file, values / ty.block_elements());
    Weight::new(ty.name(), ty, shape, bytes.into()).unwrap()
}

/// A matrix of f32 values.
pub(crate) fn f32_weight(n_in: usize, n_out: usize, values: &[f32]) -> Weight {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in, n_out, experts: values.len() / (n_in * n_out) };
    Weight::new("f32", TensorType::F32, shape, bytes.into()).unwrap()
}

/// A buffer with these values.
pub(crate) fn upload<D: Device>(device: &mut D, values: &[f32]) -> D::Buffer {
    let mut buffer = device.alloc(values.len()).unwrap();
    device.upload(values, &mut buffer);
    buffer
}

/// The first values of a buffer.
pub(crate) fn download<D: Device>(device: &mut D, buffer: &D::Buffer, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    device.download(buffer, &mut values).unwrap();
    values
}

/// Bits, which are equal or not where values may be NaN.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}
