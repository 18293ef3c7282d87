//! Matrix times rows against the reference, for every format, row length and number of rows.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use gguf::TensorType;
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Weight};

/// The error of a sum of n products in f32, added in at least 4 lanes: each of the at most n/4 + 16
/// additions rounds by at most 2^-24 of the sum of magnitudes, the product's rounding included.
fn bound(w: &[f32], x: &[f32]) -> f32 {
    let magnitudes: f64 = w.iter().zip(x).map(|(w, x)| f64::from((w * x).abs())).sum();
    (magnitudes * (w.len() as f64 / 4.0 + 16.0) * 2f64.powi(-24)) as f32
}

fn check(cpu: &mut cpu::Cpu, weight: &Weight, rows: usize, scale: f32) {
    let (n_in, n_out) = (weight.n_in(), weight.n_out());
    let x = Random::new(rows as u64).values(rows * n_in, scale);
    let mut expected = poisoned(rows * n_out);
    let matrix = Reference.load_matrix(weight, Activations::F32).unwrap();
    Reference.matmul(&matrix, &x, rows, &mut expected);

    let matrix = cpu.load_matrix(weight, Activations::F32).unwrap();
    let mut found = poisoned(rows * n_out);
    cpu.matmul(&matrix, &x, rows, &mut found);

    let decoded = weight.decode();
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let (t, r) = (i / n_out, i % n_out);
        let limit = bound(&decoded[r * n_in..][..n_in], &x[t * n_in..][..n_in]);
        let difference = (found - expected).abs();
        assert!(
            difference <= limit,
            "{} {n_in}x{n_out}, row {t} of {rows}, output {r}, {}: {found} for {expected}",
            weight.ty().name(),
            cpu.isa().name()
        );
    }
}

#[test]
fn fault_130_every_format_and_row_length() {
    let lengths: &[usize] = if is_slow() { &[64, 640] } else { &[32, 64, 160, 640, 2560, 6144] };
    for mut cpu in every_isa() {
        for ty in weight_types() {
            // A row must be whole blocks; formats of 256 have no row of 640.
            for &n_in in lengths.iter().filter(|n| n.is_multiple_of(ty.block_elements())) {
                let weight = weight(ty, WeightShape { n_in, n_out: 19, experts: 1 });
                for rows in [1, 2, 3, 4, 5, 8, 9] {
                    check(&mut cpu, &weight, rows, 1.0);
                }
            }
        }
    }
}

#[test]
fn rows_of_any_length_in_f32() {
    for mut cpu in every_isa() {
        for n_in in (1..70).chain([127, 129, 1023]) {
            let values = Random::new(n_in as u64).values(n_in * 5, 1.0);
            check(&mut cpu, &f32_weight(n_in, 5, &values), 3, 1.0);
        }
    }
}

#[test]
fn a_row_s_bits_do_not_depend_on_the_other_rows() {
    for mut cpu in every_isa() {
        for ty in weight_types() {
            let n_in = 512;
            let weight = weight(ty, WeightShape { n_in, n_out: 33, experts: 1 });
            let matrix = cpu.load_matrix(&weight, Activations::F32).unwrap();
            let x = Random::new(5).values(64 * n_in, 1.0);
            let mut all = poisoned(64 * 33);
            cpu.matmul(&matrix, &x, 64, &mut all);
            for rows in [1, 2, 3, 4, 8, 13] {
                for (part, expected) in x.chunks(rows * n_in).zip(all.chunks(rows * 33)) {
                    let count = part.len() / n_in;
                    let mut found = poisoned(count * 33);
                    cpu.matmul(&matrix, &part.to_vec(), count, &mut found);
                    let same = found.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{} in groups of {rows}", ty.name());
                }
            }
        }
    }
}

#[test]
fn fault_124_huge_constant_activations_stay_finite() {
    for mut cpu in every_isa() {
        for ty in weight_types() {
            let weight = weight(ty, WeightShape { n_in: 256, n_out: 3, experts: 1 });
            let matrix = cpu.load_matrix(&weight, Activations::F32).unwrap();
            let mut y = poisoned(3);
            cpu.matmul(&matrix, &vec![1e4; 256], 1, &mut y);
            assert!(y.iter().all(|y| y.is_finite()), "{}: {y:?}", ty.name());
            check(&mut cpu, &weight, 4, 1e4);
        }
    }
}

#[test]
fn fault_125_dead_rows_give_nearly_nothing() {
    // Scales of zero and of the smallest denormal; codes as they come.
    for mut cpu in every_isa() {
        for scale in [[0, 0], [1, 0], [1, 0x80]] {
            let mut bytes = blocks(TensorType::Q8_0, 8);
            bytes.chunks_exact_mut(34).for_each(|block| block[..2].copy_from_slice(&scale));
            let shape = WeightShape { n_in: 256, n_out: 1, experts: 1 };
            let weight = Weight::new("dead", TensorType::Q8_0, shape, bytes.into()).unwrap();
            let matrix = cpu.load_matrix(&weight, Activations::F32).unwrap();
            let mut y = poisoned(1);
            cpu.matmul(&matrix, &vec![1.0; 256], 1, &mut y);
            assert!(y[0].abs() < 256.0 * 128.0 * 6e-8, "{y:?}");
        }
    }
}

#[test]
fn activation_formats_are_refused_as_weights() {
    for mut cpu in every_isa() {
        for ty in [TensorType::Q8_K, TensorType::I32] {
            let bytes = vec![0; 256 / ty.block_elements() * ty.block_bytes()];
            let shape = WeightShape { n_in: 256, n_out: 1, experts: 1 };
            let weight = Weight::new("blk.0.attn_q.weight", ty, shape, bytes.into()).unwrap();
            let error = cpu.load_matrix(&weight, Activations::F32).unwrap_err().to_string();
            assert!(error.contains("blk.0.attn_q.weight") && error.contains(ty.name()), "{error}");
        }
    }
}
