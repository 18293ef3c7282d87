//! What the tests from outside cannot see: weights in parts, results in 8 bits, workgroup memory.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use super::*;
use crate::testing::gpu;
use gguf::TensorType;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Weight};
use lab::Random;

fn matrix(gpu: &mut Gpu, n_in: usize, n_out: usize) -> Matrix {
    let values = Random::new(n_in as u64).values(n_in * n_out, 0.2);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in, n_out, experts: 1 };
    let weight = Weight::new("w", TensorType::F32, shape, bytes.into()).unwrap();
    gpu.load_matrix(&weight, Activations::F32).unwrap()
}

fn upload(gpu: &mut Gpu, values: &[f32]) -> GpuBuffer {
    let mut buffer = gpu.alloc(values.len()).unwrap();
    gpu.upload(values, &mut buffer);
    buffer
}

#[test]
fn weights_in_many_buffers_give_the_same_read() {
    let Some(mut gpu) = gpu() else { return };
    let shape = HcShape { streams: 2, width: 64, eps: 1e-6 };
    let mut norm = gpu.alloc(128).unwrap();
    gpu.upload(&Random::new(1).values(128, 2.0), &mut norm);
    for rows in [3, 33] {
        let mut x = gpu.alloc(rows * 128).unwrap();
        gpu.upload(&Random::new(2).values(rows * 128, 3.0), &mut x);
        let mut all = Vec::new();
        for limit in [u64::MAX, 8 << 10] {
            gpu.part_limit = limit;
            let (down, up) = (matrix(&mut gpu, 128, 32), matrix(&mut gpu, 32, 128));
            let inject = matrix(&mut gpu, 128, 2);
            assert_eq!(down.parts.len() > 1 && up.parts.len() > 1, limit != u64::MAX);
            let w = HcWeights { norm: &norm, down: &down, up: &up, inject: Some(&inject) };
            let (mut u, mut weights) =
                (gpu.alloc(rows * 64).unwrap(), gpu.alloc(rows * 2).unwrap());
            let out = HcRead { u: &mut u, weights: &mut weights };
            gpu.hc_read(&shape, &w, &x, rows, out);
            let (mut found, mut found_weights) = (vec![0.0; rows * 64], vec![0.0; rows * 2]);
            gpu.download(&u, &mut found).unwrap();
            gpu.download(&weights, &mut found_weights).unwrap();
            all.push([found, found_weights].concat());
        }
        gpu.part_limit = u64::MAX;
        // Sums of 128 products in another order.
        let near = all[0].iter().zip(&all[1]).all(|(a, b)| (a - b).abs() <= 1e-5);
        assert!(near && all[0].iter().any(|&u| u != 0.0), "{rows} rows");
    }
}

/// What a read leaves in 8 bits is what a product would have made of its result.
#[test]
fn a_product_finds_the_read_in_8_bits() {
    let Some(mut gpu) = gpu() else { return };
    let shape = HcShape { streams: 4, width: 96, eps: 1e-6 };
    let wide = 4 * 96;
    let norm = upload(&mut gpu, &Random::new(1).values(wide, 2.0));
    let (down, up) = (matrix(&mut gpu, wide, 40), matrix(&mut gpu, 40, wide));
    let inject = matrix(&mut gpu, wide, 4);
    let w = HcWeights { norm: &norm, down: &down, up: &up, inject: Some(&inject) };
    // Scales are 2^-6 and 2^-5.
    let block = |i: u8| {
        [0, 0x24 + 4 * (i % 2)]
            .into_iter()
            .chain((0..32).map(move |k| i.wrapping_mul(7).wrapping_add(5 * k)))
    };
    let bytes: Vec<u8> = (0..96 / 32 * 7).flat_map(block).collect();
    let of = WeightShape { n_in: 96, n_out: 7, experts: 1 };
    let q8 = Weight::new("w", TensorType::Q8_0, of, bytes.into()).unwrap();
    let q8 = gpu.load_matrix(&q8, Activations::Int8).unwrap();
    gpu.activations = Activations::Int8;
    for rows in [1, 3, 4, 9] {
        let x = upload(&mut gpu, &Random::new(rows as u64).values(rows * wide, 3.0));
        let mut u = gpu.alloc(rows * 96).unwrap();
        let mut weights = gpu.alloc(rows * 4).unwrap();
        let mut found = gpu.alloc(rows * 7).unwrap();
        gpu.hc_read(&shape, &w, &x, rows, HcRead { u: &mut u, weights: &mut weights });
        gpu.recorder.submit();
        let before = gpu.recorder.dispatched;
        gpu.matmul(&q8, &u, rows, &mut found);
        gpu.recorder.submit();
        assert_eq!(gpu.recorder.dispatched, before + 1, "the product alone");
        let mut values = vec![0.0; rows * 96];
        gpu.download(&u, &mut values).unwrap();
        let mut want = gpu.alloc(rows * 7).unwrap();
        let copy = upload(&mut gpu, &values);
        gpu.matmul(&q8, &copy, rows, &mut want);
        let [mut a, mut b] = [(); 2].map(|()| vec![0; rows * 7]);
        gpu.recorder.download(&found, &mut a).unwrap();
        gpu.recorder.download(&want, &mut b).unwrap();
        assert!(a == b && a.iter().any(|&bits| bits != 0), "{rows} rows");
    }
}

/// Bytes of workgroup memory of a kernel.
fn memory(kernel: HcKernel) -> u32 {
    let module = naga::front::wgsl::parse_str(&kernel.shader().text).unwrap();
    let globals = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = globals.filter(|variable| variable.space == naga::AddressSpace::WorkGroup);
    shared.map(|variable| module.types[variable.ty].inner.size(module.to_ctx())).sum()
}

#[test]
fn kernels_keep_to_the_workgroup_memory_that_there_is() {
    let format = crate::formats::Format::F32;
    let kernel = |step, streams| HcKernel { step, streams, inject: true, split: true };
    for tokens in 1..=MOST_TOKENS {
        for bytes in [16 << 10, 32 << 10, 48 << 10] {
            for units in [1, 80, 300] {
                let stage = down_stage(units, tokens, bytes);
                let (tokens, units) = (tokens as u32, units as u32);
                let taken = memory(kernel(HcStep::Down { format, tokens, units, stage }, 4));
                assert!(taken <= bytes, "{taken} of {bytes} bytes: {tokens} rows, {units} units");
            }
        }
        for (rank, streams) in [(1usize, 1), (320, 4), (2048, 4), (320, 7)] {
            let tokens = up_tokens(tokens, rank.div_ceil(UNIT), streams).max(1) as u32;
            let codes = up_columns(streams, up_lanes(rank.div_ceil(UNIT))).is_multiple_of(UNIT);
            let step = HcStep::Up { format, tokens, rank: rank as u32, codes };
            let taken = memory(kernel(step, streams as u32));
            assert!(taken <= 16 << 10, "{taken} bytes: {tokens} rows, rank {rank}");
        }
    }
}
