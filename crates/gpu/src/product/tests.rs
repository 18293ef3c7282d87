//! A row's bits: they depend on the lanes that a weight row has and on nothing else.

use super::*;
use crate::elementwise::Elementwise;
use crate::testing::gpu;
use gguf::TensorType;
use kernels::moe::MoeChoice;
use kernels::weight::WeightShape;
use kernels::{Device, Gemv, Head, Moe, Weight};
use lab::{Random, weight_types};
use std::path::Path as FilePath;

fn weight(ty: TensorType, n_in: usize, n_out: usize, experts: usize) -> Weight {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    let all = std::fs::read(folder.join(format!("{}.rand.bin", ty.name()))).unwrap();
    let all: Vec<&[u8]> = all.chunks_exact(ty.block_bytes()).collect();
    let count = n_in * n_out * experts / ty.block_elements();
    let bytes: Vec<u8> = (0..count).flat_map(|i| all[i * 7 % all.len()].to_vec()).collect();
    Weight::new(ty.name(), ty, WeightShape { n_in, n_out, experts }, bytes.into()).unwrap()
}

fn upload(gpu: &mut Gpu, values: &[f32]) -> GpuBuffer {
    let mut buffer = gpu.alloc(values.len()).unwrap();
    gpu.upload(values, &mut buffer);
    buffer
}

/// `matrix x` for rows `x`, as bits.
fn product(gpu: &mut Gpu, matrix: &Matrix, x: &[f32]) -> Vec<u32> {
    let rows = x.len() / matrix.n_in;
    let x = upload(gpu, x);
    let mut y = upload(gpu, &vec![f32::NAN; rows * matrix.n_out]);
    gpu.matmul(matrix, &x, rows, &mut y);
    let mut out = vec![0; y.len()];
    gpu.recorder.download(&y, &mut out).unwrap();
    assert!(out.iter().all(|&bits| !f32::from_bits(bits).is_nan()), "a value is missing");
    out
}

#[test]
fn a_row_has_the_same_bits_in_every_window_and_chunk() {
    let Some(mut gpu) = gpu() else { return };
    for ty in weight_types() {
        for activations in [Activations::F32, Activations::Int8] {
            let matrix = gpu.load_matrix(&weight(ty, 512, 21, 1), activations).unwrap();
            // Each number of rows at once is a kernel to compile: all of them for a few formats.
            let some = matches!(
                ty,
                TensorType::F32
                    | TensorType::BF16
                    | TensorType::Q8_0
                    | TensorType::Q2_K
                    | TensorType::Q4_K
                    | TensorType::IQ2_S
            );
            let (all, windows): (usize, &[usize]) =
                if some { (78, &[1, 2, 3, 4, 5, 13, 39]) } else { (12, &[1, 3]) };
            let x = Random::new(5).values(all * 512, 1.0);
            let all = product(&mut gpu, &matrix, &x);
            for &rows in windows {
                let parts = x.chunks(rows * 512).flat_map(|x| product(&mut gpu, &matrix, x));
                let name = ty.name();
                assert!(parts.collect::<Vec<_>>() == all, "{name} {activations:?} by {rows}");
            }
        }
    }
}

#[test]
fn tiles_that_give_a_row_the_same_lanes_give_it_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    let x = Random::new(6).values(3 * 768, 1.0);
    for (ty, activations) in [
        (TensorType::Q6_K, Activations::Int8),
        (TensorType::Q4_K, Activations::F32),
        (TensorType::F16, Activations::F32),
    ] {
        let matrix = gpu.load_matrix(&weight(ty, 768, 43, 1), activations).unwrap();
        for lanes in [1, 8, 32, 64] {
            let mut bits: Option<Vec<u32>> = None;
            for (lanes, splits) in [(lanes, 1), (lanes / 2, 2), (lanes / 4, 4)] {
                if lanes == 0 || lanes > 32 {
                    continue;
                }
                for (rows, subgroups) in [(1, 2), (1, 4), (2, 4), (3, 2), (4, 8)] {
                    let tile = Tile { lanes, rows, subgroups, splits };
                    gpu.forced_tile = Some(tile);
                    let found = product(&mut gpu, &matrix, &x);
                    let first = bits.get_or_insert_with(|| found.clone());
                    assert!(found == *first, "{} {activations:?} {tile:?}", ty.name());
                }
            }
        }
        gpu.forced_tile = None;
    }
}

#[test]
fn a_weight_in_many_buffers_is_the_same_weight() {
    let Some(mut gpu) = gpu() else { return };
    let x = Random::new(8).values(3 * 256, 1.0);
    let tokens: Vec<u32> = (0..50).rev().collect();
    for ty in [TensorType::Q8_0, TensorType::IQ3_S, TensorType::BF16, TensorType::TQ1_0] {
        let weight = weight(ty, 256, 50, 1);
        gpu.part_limit = u64::MAX;
        let whole = gpu.load_matrix(&weight, Activations::F32).unwrap();
        gpu.part_limit = 4 << 10;
        let cut = gpu.load_matrix(&weight, Activations::F32).unwrap();
        assert!(whole.parts.len() == 1 && cut.parts.len() > 1, "{} parts", cut.parts.len());
        assert_eq!(product(&mut gpu, &whole, &x), product(&mut gpu, &cut, &x), "{}", ty.name());
        let mut decoded = |matrix: &Matrix| {
            let mut out = upload(&mut gpu, &[f32::NAN; 50 * 256]);
            gpu.embed(matrix, &tokens, 1, &mut out);
            let mut bits = vec![0; out.len()];
            gpu.recorder.download(&out, &mut bits).unwrap();
            bits
        };
        assert_eq!(decoded(&whole), decoded(&cut), "{}", ty.name());
    }
    // An expert is never cut.
    gpu.part_limit = 2 << 10;
    let error = gpu.load_matrix(&weight(TensorType::Q8_0, 256, 50, 2), Activations::F32);
    assert!(matches!(error, Err(kernels::Error::OutOfMemory { .. })));
}

/// Whatever the company of a pair and wherever its expert lies, its bits are those of the expert's
/// matrix by itself.
#[test]
fn an_expert_s_product_has_the_bits_of_its_matrix_alone() {
    let Some(mut gpu) = gpu() else { return };
    let choice = MoeChoice { experts: 6, used: 2 };
    for ty in [TensorType::Q8_0, TensorType::IQ2_S, TensorType::Q5_1, TensorType::F32] {
        for rows in [1, 2, 7, 20, 40] {
            let stack = weight(ty, 256, 19, choice.experts);
            let logits = Random::new(rows as u64).values(rows * choice.experts, 1.0);
            let x = Random::new(9).values(rows * choice.used * 256, 1.0);
            for (activations, limit) in
                [(Activations::F32, u64::MAX), (Activations::Int8, 48 << 10)]
            {
                let bits = pairs(&mut gpu, &stack, activations, limit, (&logits, choice), &x);
                let mut host = kernels::host::Plan::default();
                host.build(&logits, choice);
                gpu.part_limit = u64::MAX;
                for (pair, &expert) in host.experts().iter().enumerate() {
                    let rows: Vec<u32> = (expert * 19..(expert + 1) * 19).collect();
                    let alone = stack.select_rows(&rows).unwrap();
                    let alone = gpu.load_matrix(&alone, activations).unwrap();
                    let want = product(&mut gpu, &alone, &x[pair * 256..][..256]);
                    assert!(bits[pair * 19..][..19] == want, "{} pair {pair}", ty.name());
                }
            }
        }
    }
}

fn pairs(
    gpu: &mut Gpu,
    stack: &Weight,
    activations: Activations,
    limit: u64,
    (logits, choice): (&[f32], MoeChoice),
    x: &[f32],
) -> Vec<u32> {
    gpu.part_limit = limit;
    let matrix = gpu.load_matrix(stack, activations).unwrap();
    let rows = logits.len() / choice.experts;
    let (logits, x) = (upload(gpu, logits), upload(gpu, x));
    let mut part = upload(gpu, &vec![f32::NAN; rows * choice.used * stack.n_out()]);
    let mut plan = gpu.new_plan();
    gpu.moe_plan(&logits, rows, choice, &mut plan);
    gpu.moe_down(&plan, &matrix, &x, &mut part);
    let mut bits = vec![0; part.len()];
    gpu.recorder.download(&part, &mut bits).unwrap();
    bits
}

/// The rule of docs/numerics.md in its plainest form.
fn eight_bits(x: &[f32]) -> (Vec<i8>, f32) {
    let largest = x.iter().fold(0f32, |m, x| m.max(x.abs()));
    if largest < 1e-30 {
        return (vec![0; x.len()], 0.0);
    }
    let factor = 127.0 / largest;
    (x.iter().map(|x| (x * factor).round_ties_even() as i8).collect(), largest / 127.0)
}

#[test]
fn activations_come_to_8_bits_by_the_rule() {
    let Some(mut gpu) = gpu() else { return };
    let mut x = Random::new(10).values(64 * 32, 1.0);
    for (unit, values) in x.chunks_mut(32).enumerate() {
        // Ties, of both signs, where the largest is 127; tiny ones; wide ranges.
        match unit % 5 {
            0 => {
                values.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 - 15.5);
                values[7] = 127.0;
            }
            1 => values.iter_mut().for_each(|x| *x *= 1e-31),
            2 => values.iter_mut().for_each(|x| *x *= 1e30),
            3 => values.fill(0.0),
            _ => {}
        }
    }
    let (codes, scales) = quantised(&mut gpu, &x);
    for (unit, values) in x.chunks(32).enumerate() {
        let (want, scale) = eight_bits(values);
        // A device's division may be off by 2.5 units in the last place (Vulkan), and so a code by
        // one where its value is nearly a tie.
        let found = f32::from_bits(scales[2 * unit]);
        assert!((found - scale).abs() <= scale * 4e-7, "unit {unit}: {found} for {scale}");
        let found: &[i8] = bytemuck::cast_slice(&codes[8 * unit..][..8]);
        let off = found.iter().zip(&want).filter(|(a, b)| a != b).count();
        let near = found.iter().zip(&want).all(|(a, b)| (i32::from(*a) - i32::from(*b)).abs() <= 1);
        assert!(near && off <= usize::from(unit % 5 != 0), "unit {unit}: {found:?} for {want:?}");
        let sums = [0, 16].map(|at| found[at..at + 16].iter().map(|&q| i16::from(q)).sum::<i16>());
        let both = scales[2 * unit + 1];
        assert_eq!([both as i16, (both >> 16) as i16], sums, "unit {unit}");
    }
}

fn quantised(gpu: &mut Gpu, x: &[f32]) -> (Vec<u32>, Vec<u32>) {
    let units = x.len() / 32;
    let x = upload(gpu, x);
    let (codes, scales) = (gpu.alloc(8 * units).unwrap(), gpu.alloc(2 * units).unwrap());
    let buffers = [codes.all(), scales.all(), x.all()];
    gpu.elementwise(Elementwise::Quantise, &buffers, None, (1, 8 * units, 0));
    let (mut c, mut s) = (vec![0; 8 * units], vec![0; 2 * units]);
    gpu.recorder.download(&codes, &mut c).unwrap();
    gpu.recorder.download(&scales, &mut s).unwrap();
    (c, s)
}

#[test]
fn what_is_not_finite_makes_its_unit_no_number_and_no_other() {
    let Some(mut gpu) = gpu() else { return };
    let mut x = vec![1.0; 4 * 32];
    (x[33], x[70], x[71]) = (f32::NAN, f32::INFINITY, f32::NAN);
    let (_, scales) = quantised(&mut gpu, &x);
    let nan = |unit: usize| f32::from_bits(scales[2 * unit]).is_nan();
    assert_eq!([0, 1, 2, 3].map(nan), [false, true, true, false]);
}

/// Products that share a call, of every mix of formats and activations, have the bits that they
/// have alone; and what they read of each other is there.
#[test]
fn products_that_share_a_call_have_the_bits_that_they_have_alone() {
    let Some(mut gpu) = gpu() else { return };
    let kinds = [
        (TensorType::IQ4_XS, Activations::Int8, 40),
        (TensorType::F32, Activations::F32, 3),
        (TensorType::IQ2_S, Activations::Int8, 17),
        (TensorType::Q4_K, Activations::F32, 21),
        (TensorType::IQ4_NL, Activations::Int8, 256),
        (TensorType::Q8_0, Activations::Int8, 9),
    ];
    let matrices: Vec<_> = kinds
        .iter()
        .map(|&(ty, activations, n_out)| {
            gpu.load_matrix(&weight(ty, 256, n_out, 1), activations).unwrap()
        })
        .collect();
    for rows in [1, 3, 8, 13, 40] {
        let x = Random::new(rows as u64).values(rows * 256, 1.0);
        let alone: Vec<_> = matrices.iter().map(|m| product(&mut gpu, m, &x)).collect();
        let input = upload(&mut gpu, &x);
        let mut ys: Vec<_> =
            matrices.iter().map(|m| upload(&mut gpu, &vec![f32::NAN; rows * m.n_out])).collect();
        for (matrix, y) in matrices.iter().zip(&mut ys) {
            gpu.matmul(matrix, &input, rows, y);
        }
        // The fifth gives the input of one more.
        let mut last = upload(&mut gpu, &vec![f32::NAN; rows * 40]);
        gpu.matmul(&matrices[0], &ys[4], rows, &mut last);
        for (y, want) in ys.iter().zip(&alone) {
            let mut out = vec![0; y.len()];
            gpu.recorder.download(y, &mut out).unwrap();
            assert!(out == *want, "{rows} rows");
        }
        let fifth: Vec<f32> = alone[4].iter().map(|&bits| f32::from_bits(bits)).collect();
        let want = product(&mut gpu, &matrices[0], &fifth);
        let mut out = vec![0; last.len()];
        gpu.recorder.download(&last, &mut out).unwrap();
        assert!(out == want, "{rows} rows of a product of a product");
    }
}

/// Rows that were brought to 8 bits once are brought again when they have changed.
#[test]
fn rows_that_change_are_brought_to_8_bits_anew() {
    let Some(mut gpu) = gpu() else { return };
    let matrix = gpu.load_matrix(&weight(TensorType::Q8_0, 256, 33, 1), Activations::Int8).unwrap();
    let (a, b) = (Random::new(1).values(512, 1.0), Random::new(2).values(512, 1.0));
    let want = [&a, &b].map(|x| product(&mut gpu, &matrix, x));
    let mut x = upload(&mut gpu, &a);
    let other = upload(&mut gpu, &b);
    let ys: Vec<_> = (0..4).map(|_| upload(&mut gpu, &[f32::NAN; 66])).collect();
    let mut ys = ys.into_iter();
    let mut multiply = |gpu: &mut Gpu, x: &GpuBuffer| {
        let mut y = ys.next().unwrap();
        gpu.matmul(&matrix, x, 2, &mut y);
        y
    };
    let first = multiply(&mut gpu, &x);
    gpu.gather_rows(&other, &[0, 1], 256, (&mut x, 0));
    let second = multiply(&mut gpu, &x);
    gpu.upload(&a, &mut x);
    let third = multiply(&mut gpu, &x);
    gpu.recorder.copy((&other, 0), (&x, 0), 512);
    let fourth = multiply(&mut gpu, &x);
    for (i, y) in [first, second, third, fourth].iter().enumerate() {
        let mut out = vec![0; 66];
        gpu.recorder.download(y, &mut out).unwrap();
        assert!(out == want[i % 2], "product {i}");
    }
}
