//! Products with 8-bit activations: the bits of a result depend on nothing but its row, and what is
//! not finite shows, in every format, with every tile and any number of threads.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, CpuMatrix, CpuOptions, Interleave, Isa};
use gguf::{Bytes, TensorType};
use kernels::moe::{GateUp, MoeChoice};
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Moe, Weight};

/// One thread takes two panels at a time where there are enough, 17 threads take one. Weights are
/// read as they lie in the file, or in turn.
const WAYS: [(usize, Interleave); 5] = [
    (1, Interleave::Nothing),
    (2, Interleave::Nothing),
    (17, Interleave::Nothing),
    (1, Interleave::All),
    (17, Interleave::All),
];

fn cpus(isa: Isa) -> impl Iterator<Item = Cpu> {
    WAYS.into_iter().map(move |(threads, interleave)| {
        Cpu::new(CpuOptions { threads, isa, activations: Activations::Int8, interleave })
    })
}

fn load(cpu: &mut Cpu, weight: &Weight) -> CpuMatrix {
    cpu.load_matrix(weight, Activations::Int8).unwrap()
}

/// The products of `rows` rows with every output written, as bits.
fn products(cpu: &mut Cpu, matrix: &CpuMatrix, n_out: usize, x: &[f32], rows: usize) -> Vec<u32> {
    let mut y = poisoned(rows * n_out);
    cpu.matmul(matrix, &x.to_vec(), rows, &mut y);
    assert!(y.iter().all(|y| y.is_finite()));
    y.iter().map(|y| y.to_bits()).collect()
}

/// A row length that is no multiple of a panel's where the format allows it.
fn row_length(ty: TensorType) -> usize {
    if ty.block_elements() == 256 { 512 } else { 5 * ty.block_elements().max(64) }
}

#[test]
fn bits_depend_on_neither_company_nor_threads() {
    // Fewer outputs than a panel has rows; many panels, the last of one row.
    for n_out in [1, 3, 129] {
        for isa in Isa::available() {
            for ty in weight_types() {
                let n_in = row_length(ty);
                let weight = weight(ty, WeightShape { n_in, n_out, experts: 1 });
                let x = Random::new(11).values(9 * n_in, 1.0);
                let mut expected: Option<Vec<u32>> = None;
                for mut cpu in cpus(isa) {
                    let matrix = load(&mut cpu, &weight);
                    for rows in [1, 2, 3, 6, 9] {
                        let of_window =
                            |x: &[f32]| products(&mut cpu, &matrix, n_out, x, x.len() / n_in);
                        let found: Vec<u32> = x.chunks(rows * n_in).flat_map(of_window).collect();
                        let expected = expected.get_or_insert_with(|| found.clone());
                        let (ty, isa, threads) = (ty.name(), isa.name(), cpu.threads());
                        let what = || format!("{ty} {isa}, {rows} rows, {threads} threads");
                        assert!(found == *expected, "{n_out} outputs, {}", what());
                    }
                }
            }
        }
    }
}

#[test]
fn no_rows_and_no_outputs_are_nothing_to_do() {
    for mut cpu in every_isa() {
        for n_out in [0, 3] {
            let shape = WeightShape { n_in: 256, n_out, experts: 1 };
            for ty in [TensorType::Q4_K, TensorType::F16] {
                let matrix = load(&mut cpu, &weight(ty, shape));
                for rows in [0, 2] {
                    let found = products(&mut cpu, &matrix, n_out, &vec![1.0; rows * 256], rows);
                    assert_eq!(found.len(), rows * n_out);
                }
            }
        }
    }
}

/// Gate and up, then down, of the window with these router logits and inputs: bits, row by row.
fn experts(
    cpu: &mut Cpu,
    [gate, up, down]: [&Weight; 3],
    (logits, u): (&[f32], &[f32]),
    choice: MoeChoice,
) -> Vec<u32> {
    let (n_in, width, rows) = (gate.n_in(), down.n_in(), logits.len() / choice.experts);
    let [gate, up, down] = [gate, up, down].map(|weight| load(cpu, weight));
    let mut plan = cpu.new_plan();
    cpu.moe_plan(&logits.to_vec(), rows, choice, &mut plan);
    let mut act = poisoned(rows * choice.used * width);
    let separate = GateUp::Separate { gate: &gate, up: &up };
    cpu.moe_gate_up(&plan, separate, &u.to_vec(), &mut act);
    let mut part = poisoned(rows * choice.used * n_in);
    cpu.moe_down(&plan, &down, &act, &mut part);
    assert!(act.iter().chain(&part).all(|x| x.is_finite()));
    let (act, part) = (act.chunks(choice.used * width), part.chunks(choice.used * n_in));
    act.zip(part).flat_map(|(a, b)| a.iter().chain(b).map(|x| x.to_bits())).collect()
}

/// A stack of one expert has the shape of a matrix, and its rows need not be whole panels.
#[test]
fn one_expert_of_odd_width_is_multiplied_in_any_order() {
    let (n_in, width, rows) = (256, 24, 3);
    let choice = MoeChoice { experts: 1, used: 1 };
    let weight = |ty, n_in, n_out| weight(ty, WeightShape { n_in, n_out, experts: 1 });
    let gate = weight(TensorType::Q8_0, n_in, width);
    let up = weight(TensorType::Q4_K, n_in, width);
    let down = weight(TensorType::F16, width, n_in);
    let mut random = Random::new(13);
    let (logits, u) = (random.values(rows, 1.0), random.values(rows * n_in, 1.0));
    for isa in Isa::available() {
        let mut expected: Option<Vec<u32>> = None;
        for mut cpu in cpus(isa) {
            let found = experts(&mut cpu, [&gate, &up, &down], (&logits, &u), choice);
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(found == *expected, "{}, {} threads", isa.name(), cpu.threads());
        }
    }
}

#[test]
fn bits_of_experts_depend_on_neither_company_nor_threads() {
    let (n_in, width, rows) = (256, 96, 9);
    let choice = MoeChoice { experts: 6, used: 3 };
    let weight = |ty, n_in, n_out| weight(ty, WeightShape { n_in, n_out, experts: 6 });
    let gate = weight(TensorType::Q2_K, n_in, width);
    let up = weight(TensorType::IQ2_S, n_in, width);
    let down = weight(TensorType::Q5_1, width, n_in);
    let mut random = Random::new(12);
    let (logits, u) = (random.values(rows * 6, 1.0), random.values(rows * n_in, 1.0));
    for isa in Isa::available() {
        let mut expected: Option<Vec<u32>> = None;
        for mut cpu in cpus(isa) {
            for rows in [1, 2, 3, 6, 9] {
                let windows = logits.chunks(rows * 6).zip(u.chunks(rows * n_in));
                let of_window = |window| experts(&mut cpu, [&gate, &up, &down], window, choice);
                let found: Vec<u32> = windows.flat_map(of_window).collect();
                let expected = expected.get_or_insert_with(|| found.clone());
                let (isa, threads) = (isa.name(), cpu.threads());
                assert!(found == *expected, "{isa}, {rows} rows, {threads} threads");
            }
        }
    }
}

#[test]
fn weights_that_are_not_finite_show_in_their_rows_alone() {
    // All bits set is a NaN in every kind of scale that has one.
    let n_out = 40;
    let mut kinds = 0;
    for ty in weight_types() {
        let n_in = row_length(ty);
        let shape = WeightShape { n_in, n_out, experts: 1 };
        let whole = weight(ty, shape);
        let mut bytes = whole.bytes().to_vec();
        let (last_block, row) = (ty.block_bytes(), whole.row_bytes());
        bytes[17 * row - last_block..17 * row].fill(0xff);
        let broken = Weight::new("broken", ty, shape, Bytes::from(bytes)).unwrap();
        let mut values = vec![0.0; n_in];
        // MXFP4 has no NaN: its largest scale is finite, only elements overflow.
        if quant::decode_row(ty, broken.row(16), &mut values).is_err()
            || values.iter().all(|x| !x.is_nan())
        {
            continue;
        }
        kinds += 1;
        // Zeros too: nothing times NaN is NaN.
        for x in [Random::new(13).values(3 * n_in, 1.0), vec![0.0; 3 * n_in]] {
            for mut cpu in every_isa() {
                let mut found = [poisoned(3 * n_out), poisoned(3 * n_out)];
                for (weight, y) in [&whole, &broken].into_iter().zip(&mut found) {
                    let matrix = load(&mut cpu, weight);
                    cpu.matmul(&matrix, &x, 3, y);
                }
                for (i, (whole, broken)) in found[0].iter().zip(&found[1]).enumerate() {
                    let right = match i % n_out {
                        16 => !broken.is_finite(),
                        _ => broken.to_bits() == whole.to_bits() && broken.is_finite(),
                    };
                    assert!(right, "{} {}: {broken} at {i}", ty.name(), cpu.isa().name());
                }
            }
        }
    }
    assert!(kinds >= 20, "{kinds} formats with NaN");
}
