//! What the cases of `lab` do not cover: decoded rows, plans, combination, and refusals.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use gguf::TensorType;
use kernels::moe::{GateUp, MoeChoice, SharedExpert};
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Head, Moe, Weight};
use lab::{Random, weight_types};

#[test]
fn decoded_rows_are_the_definition_s_in_every_format() {
    let Some(mut gpu) = gpu() else { return };
    for ty in weight_types() {
        for file in ["rand", "edge"] {
            let shape = WeightShape { n_in: 512, n_out: 37, experts: 1 };
            let weight = weight(ty, file, shape);
            let matrix = gpu.load_matrix(&weight, Activations::F32).unwrap();
            let tokens: Vec<u32> = (0..37).chain([5, 5, 36]).collect();
            let mut x = upload(&mut gpu, &vec![f32::NAN; tokens.len() * 2 * 512]);
            gpu.embed(&matrix, &tokens, 2, &mut x);
            let found = download(&mut gpu, &x, tokens.len() * 2 * 512);
            let mut row = vec![0.0; 512];
            for (i, found) in found.chunks(512).enumerate() {
                weight.decode_row(tokens[i / 2] as usize, &mut row);
                for (column, (found, want)) in found.iter().zip(&row).enumerate() {
                    // A device may make zeros of denormal numbers.
                    let tiny = want.abs() < f32::MIN_POSITIVE && *found == 0.0;
                    let same = found.to_bits() == want.to_bits()
                        || found.is_nan() && want.is_nan()
                        || *found == 0.0 && *want == 0.0;
                    let name = ty.name();
                    assert!(same || tiny, "{name} {file} {i}, {column}: {found} for {want}");
                }
            }
        }
    }
}

#[test]
fn rows_of_any_length_in_f32() {
    let Some(mut gpu) = gpu() else { return };
    for n_in in [1, 2, 3, 5, 31, 33, 63, 65, 127, 1023] {
        let values = Random::new(n_in as u64).values(n_in * 5, 1.0);
        let weight = f32_weight(n_in, 5, &values);
        let x = Random::new(3).values(3 * n_in, 1.0);
        let matrix = gpu.load_matrix(&weight, Activations::F32).unwrap();
        let (input, mut y) = (upload(&mut gpu, &x), upload(&mut gpu, &[f32::NAN; 15]));
        gpu.matmul(&matrix, &input, 3, &mut y);
        let found = download(&mut gpu, &y, 15);
        let mut want = vec![0.0; 15];
        Reference.matmul(&weight, &x, 3, &mut want);
        // n products of magnitude up to 1, each rounded a few times.
        let bound = n_in as f32 * 4e-7;
        let near = found.iter().zip(&want).all(|(f, w)| (f - w).abs() <= bound);
        assert!(near, "{n_in}: {found:?} for {want:?}");
        let mut decoded = upload(&mut gpu, &vec![f32::NAN; 5 * n_in]);
        gpu.embed(&matrix, &[0, 1, 2, 3, 4], 1, &mut decoded);
        assert_eq!(download(&mut gpu, &decoded, 5 * n_in), values);
    }
}

/// What a plan chooses shows in what is combined: parts that are the numbers of their pairs.
#[test]
fn plans_and_combination_agree_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    let width = 70;
    let cases = [(4, 1, 1), (16, 4, 3), (512, 10, 5), (40, 40, 2), (300, 7, 40), (512, 10, 1)];
    let large = [(2048, 10, 3), (2048, 150, 1), (700, 300, 2), (1024, 256, 1), (129, 129, 1)];
    for (experts, used, rows) in cases.into_iter().chain(large) {
        let choice = MoeChoice { experts, used };
        let mut random = Random::new(rows as u64);
        let mut logits = random.values(rows * experts, 4.0);
        // Equal logits, which go to the lower expert; zeros of both signs are equal.
        logits[0] = 0.0;
        logits[experts - 1] = -0.0;
        // The last row has equal logits everywhere, most of its best are neighbours.
        let last = &mut logits[(rows - 1) * experts..];
        last.iter_mut().enumerate().for_each(|(i, l)| *l = 0.5 * l.round() + (i / 16 % 2) as f32);
        let parts = random.values(rows * used * width, 1.0);
        let shared = random.values(rows * width, 1.0);
        let gate = random.values(rows, 3.0);
        let want = combined(&mut Reference, (&logits, choice), &parts, (&shared, &gate, width));
        let found = combined(&mut gpu, (&logits, choice), &parts, (&shared, &gate, width));
        // Sums of up to 300 products with weights that add up to 1, and a softmax in f32.
        let near = found.iter().zip(&want).all(|(f, w)| (f - w).abs() <= 1e-5);
        assert!(near, "{used} of {experts}, {rows} rows");
    }
}

fn combined<D: Moe>(
    device: &mut D,
    (logits, choice): (&[f32], MoeChoice),
    parts: &[f32],
    (shared, gate, width): (&[f32], &[f32], usize),
) -> Vec<f32> {
    let rows = gate.len();
    let logits = upload(device, logits);
    let mut plan = device.new_plan();
    device.moe_plan(&logits, rows, choice, &mut plan);
    let (parts, shared) = (upload(device, parts), upload(device, shared));
    let gate = upload(device, gate);
    let mut y = upload(device, &vec![f32::NAN; rows * width]);
    let shared = SharedExpert { y: &shared, gate: &gate, width };
    device.moe_combine(&plan, &parts, shared, &mut y);
    download(device, &y, rows * width)
}

/// Each expert's matrix is its number in every place, so an output tells which experts were taken.
#[test]
fn non_finite_logits_choose_valid_experts_and_a_nan_shows() {
    let Some(mut gpu) = gpu() else { return };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let values: Vec<f32> = (0..4).flat_map(|e| [e as f32; 32]).collect();
    let experts = gpu.load_matrix(&f32_weight(32, 1, &values), Activations::F32).unwrap();
    let x = upload(&mut gpu, &[1.0 / 32.0; 3 * 32]);
    for row in [[nan; 4], [nan, inf, -inf, 1.0], [-inf; 4], [inf; 4], [1.0, 2.0, 0.5, nan]] {
        let logits = upload(&mut gpu, &row);
        let mut plan = gpu.new_plan();
        gpu.moe_plan(&logits, 1, MoeChoice { experts: 4, used: 3 }, &mut plan);
        let mut part = upload(&mut gpu, &[-1.0; 3]);
        gpu.moe_down(&plan, &experts, &x, &mut part);
        let mut chosen: Vec<u32> =
            download(&mut gpu, &part, 3).iter().map(|e| e.round() as u32).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert!(chosen.len() == 3 && chosen.iter().all(|&e| e < 4), "{row:?}: {chosen:?}");
        if row.iter().any(|x| x.is_nan()) {
            let (shared, gate) = (upload(&mut gpu, &[0.0]), upload(&mut gpu, &[0.0]));
            let mut y = upload(&mut gpu, &[0.0]);
            let shared = SharedExpert { y: &shared, gate: &gate, width: 1 };
            gpu.moe_combine(&plan, &part, shared, &mut y);
            assert!(download(&mut gpu, &y, 1)[0].is_nan(), "{row:?}");
        }
    }
}

#[test]
fn swiglu_and_kept_rows() {
    let Some(mut gpu) = gpu() else { return };
    let (a, b) = (Random::new(1).values(700, 8.0), Random::new(2).values(700, 2.0));
    let (mut x, y) = (upload(&mut gpu, &a), upload(&mut gpu, &b));
    gpu.swiglu(&mut x, &y, 650);
    let found = download(&mut gpu, &x, 700);
    let mut want = a.clone();
    Reference.swiglu(&mut want, &b, 650);
    // exp of a device may be off by some units in the last place.
    let near = |f: &f32, w: &f32| (f - w).abs() <= 1e-5 * w.abs().max(1.0);
    assert!(found.iter().zip(&want).all(|(f, w)| near(f, w)));
    assert_eq!(found[650..], a[650..]);

    let mut out = upload(&mut gpu, &[-1.0; 50]);
    gpu.gather_rows(&y, &[6, 0, 6], 10, (&mut out, 1));
    let found = download(&mut gpu, &out, 50);
    let want = [&[-1.0; 10], &b[60..70], &b[..10], &b[60..70], &[-1.0; 10]].concat();
    assert_eq!(found, want);
}

#[test]
fn fault_124_huge_constant_activations_stay_finite() {
    let Some(mut gpu) = gpu() else { return };
    for ty in weight_types() {
        for activations in [Activations::F32, Activations::Int8] {
            let weight = weight(ty, "rand", WeightShape { n_in: 256, n_out: 3, experts: 1 });
            let matrix = gpu.load_matrix(&weight, activations).unwrap();
            let (x, mut y) = (upload(&mut gpu, &[1e4; 256]), upload(&mut gpu, &[f32::NAN; 3]));
            gpu.matmul(&matrix, &x, 1, &mut y);
            let y = download(&mut gpu, &y, 3);
            assert!(y.iter().all(|y| y.is_finite()), "{}: {y:?}", ty.name());
        }
    }
}

#[test]
fn activation_formats_are_refused_as_weights() {
    let Some(mut gpu) = gpu() else { return };
    for ty in [TensorType::Q8_K, TensorType::Q8_1, TensorType::I32, TensorType::F64] {
        let bytes = vec![0; 256 / ty.block_elements() * ty.block_bytes()];
        let shape = WeightShape { n_in: 256, n_out: 1, experts: 1 };
        let weight = Weight::new("blk.0.attn_q.weight", ty, shape, bytes.into()).unwrap();
        for error in [
            gpu.load_matrix(&weight, Activations::F32).err().unwrap().to_string(),
            gpu.load_vector(&weight).err().unwrap().to_string(),
        ] {
            assert!(error.contains("blk.0.attn_q.weight") && error.contains(ty.name()), "{error}");
        }
    }
}

#[test]
fn a_matrix_without_rows_does_nothing() {
    let Some(mut gpu) = gpu() else { return };
    let none = weight(TensorType::Q8_0, "rand", WeightShape { n_in: 64, n_out: 5, experts: 1 });
    let none = none.select_rows(&[]).unwrap();
    let matrix = gpu.load_matrix(&none, Activations::Int8).unwrap();
    let (x, mut y) = (upload(&mut gpu, &[1.0; 64]), upload(&mut gpu, &[7.0; 2]));
    gpu.matmul(&matrix, &x, 1, &mut y);
    assert_eq!(download(&mut gpu, &y, 2), [7.0; 2]);
}

/// The whole of an expert layer in one submission, beside the same on the reference.
#[test]
fn an_expert_layer_from_logits_to_sum() {
    let Some(mut gpu) = gpu() else { return };
    let want = layer(&mut Reference);
    let found = layer(&mut gpu);
    let largest = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    // Two products of f32 sums in a row, relative to the largest value.
    let near = found.iter().zip(&want).all(|(f, w)| (f - w).abs() <= 1e-5 * largest);
    assert!(near, "{:?} for {:?}", &found[..8], &want[..8]);
}

fn layer<D: Moe>(device: &mut D) -> Vec<f32> {
    let (rows, width, ffn) = (6, 64, 32);
    let choice = MoeChoice { experts: 8, used: 3 };
    let mut stack = |n_in: usize, n_out: usize| {
        let weight = weight(TensorType::Q4_0, "rand", WeightShape { n_in, n_out, experts: 8 });
        device.load_matrix(&weight, Activations::F32).unwrap()
    };
    let (gate, up, down) = (stack(width, ffn), stack(width, ffn), stack(ffn, width));
    let mut random = Random::new(9);
    let mut values = |len: usize| random.values(len, 1.0);
    let (u, logits) = (values(rows * width), values(rows * choice.experts));
    let (shared, shared_gate) = (values(rows * width), values(rows));
    let (u, logits) = (upload(device, &u), upload(device, &logits));
    let (shared, shared_gate) = (upload(device, &shared), upload(device, &shared_gate));
    let pairs = rows * choice.used;
    let mut act = device.alloc(pairs * ffn).unwrap();
    let mut part = device.alloc(pairs * width).unwrap();
    let mut y = device.alloc(rows * width).unwrap();
    let mut plan = device.new_plan();
    device.moe_plan(&logits, rows, choice, &mut plan);
    device.moe_gate_up(&plan, GateUp::Separate { gate: &gate, up: &up }, &u, &mut act);
    device.moe_down(&plan, &down, &act, &mut part);
    let shared = SharedExpert { y: &shared, gate: &shared_gate, width };
    device.moe_combine(&plan, &part, shared, &mut y);
    download(device, &y, rows * width)
}
