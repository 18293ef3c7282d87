//! What shares a call has the bits that it has alone.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use crate::testing::gpu;
use crate::{Gpu, GpuBuffer};
use gguf::TensorType;
use kernels::moe::{MoeChoice, SharedExpert};
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Gemv, Hc, HcShape, Moe, Weight};
use lab::Random;
use std::path::Path;

const SHAPE: HcShape = HcShape { streams: 4, width: 70, eps: 1e-6 };

fn values(gpu: &mut Gpu, seed: u64, len: usize) -> GpuBuffer {
    let mut buffer = gpu.alloc(len).unwrap();
    gpu.upload(&Random::new(seed).values(len, 2.0), &mut buffer);
    buffer
}

fn words(gpu: &mut Gpu, buffer: &GpuBuffer) -> Vec<u32> {
    let mut out = vec![0; buffer.len()];
    gpu.recorder.download(buffer, &mut out).unwrap();
    out
}

/// Bits of y and the streams with and without something between `make` and the injection, and
/// the kernels that were started without.
fn both_ways(gpu: &mut Gpu, rows: usize, mut make: impl FnMut(&mut Gpu, &mut GpuBuffer)) -> usize {
    let gains = values(gpu, 7, rows * SHAPE.streams);
    let mut found = Vec::new();
    let mut started = 0;
    for apart in [true, false] {
        let mut x = values(gpu, 8, (rows + 1) * SHAPE.streams * SHAPE.width);
        let mut y = values(gpu, 9, rows * SHAPE.width);
        started = gpu.recorder.dispatched;
        make(gpu, &mut y);
        if apart {
            gpu.recorder.submit();
        }
        gpu.hc_inject(&SHAPE, &gains, &y, rows, &mut x);
        gpu.recorder.submit();
        started = gpu.recorder.dispatched - started;
        found.push((words(gpu, &y), words(gpu, &x)));
    }
    assert!(found[0] == found[1], "{rows} rows");
    assert_ne!(found[0].1, words_of_seed(8, (rows + 1) * SHAPE.streams * SHAPE.width));
    started
}

fn words_of_seed(seed: u64, len: usize) -> Vec<u32> {
    Random::new(seed).values(len, 2.0).iter().map(|v| v.to_bits()).collect()
}

#[test]
fn streams_take_a_product_with_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    let bytes: Vec<u8> =
        Random::new(1).values(96 * 70, 0.2).iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in: 96, n_out: 70, experts: 1 };
    let weight = Weight::new("w", TensorType::F32, shape, bytes.into()).unwrap();
    for limit in [u64::MAX, 8 << 10] {
        gpu.part_limit = limit;
        let matrix = gpu.load_matrix(&weight, Activations::F32).unwrap();
        for rows in [1, 3, 6, 40] {
            let from = values(&mut gpu, 2, rows * 96);
            let started = both_ways(&mut gpu, rows, |gpu, y| gpu.matmul(&matrix, &from, rows, y));
            // Weights in parts are left alone; so few rows of floats have the kernel for few.
            let alone = limit == u64::MAX;
            assert!(if alone { started == 1 } else { started >= 2 }, "{rows} rows: {started}");
        }
    }
    gpu.part_limit = u64::MAX;
}

/// Two gates that are the same, one made beside a plan and one alone, and what the plan chose.
#[test]
fn an_activation_beside_a_plan_has_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    let choice = MoeChoice { experts: 40, used: 5 };
    for (rows, len) in [(1, 96), (4, 4 * 640), (1, 90), (40, 96)] {
        let logits = values(&mut gpu, 1, rows * 40);
        let up = values(&mut gpu, 2, len);
        let mut found = Vec::new();
        for apart in [true, false] {
            let mut gate = values(&mut gpu, 3, len);
            let mut plan = gpu.new_plan();
            let before = gpu.recorder.dispatched;
            gpu.moe_plan(&logits, rows, choice, &mut plan);
            if apart {
                gpu.recorder.submit();
            }
            gpu.swiglu(&mut gate, &up, len);
            gpu.recorder.submit();
            let started = gpu.recorder.dispatched - before;
            // Rows that are no whole units are not left in 8 bits.
            let together = !apart && rows < 8 && len % 32 == 0;
            let want = if rows < 8 { 1 } else { 2 } + usize::from(!together);
            assert_eq!(started, want, "{rows} rows, {len} values");
            let (experts, _) = plan.chosen().unwrap();
            found.push((words(&mut gpu, experts), words(&mut gpu, &gate)));
        }
        assert!(found[0] == found[1], "{rows} rows, {len} values");
    }
}

#[test]
fn streams_take_the_sum_of_experts_with_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    let choice = MoeChoice { experts: 16, used: 5 };
    for rows in [1, 4, 40] {
        let logits = values(&mut gpu, 1, rows * 16);
        let mut plan = gpu.new_plan();
        gpu.moe_plan(&logits, rows, choice, &mut plan);
        let part = values(&mut gpu, 2, rows * 5 * SHAPE.width);
        let (shared, gate) = (values(&mut gpu, 3, rows * SHAPE.width), values(&mut gpu, 4, rows));
        let started = both_ways(&mut gpu, rows, |gpu, y| {
            let shared = SharedExpert { y: &shared, gate: &gate, width: SHAPE.width };
            gpu.moe_combine(&plan, &part, shared, y);
        });
        assert_eq!(started, 1);
    }
}
fn weight(ty: TensorType, n_in: usize, n_out: usize, experts: usize) -> Weight {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    let all = std::fs::read(folder.join(format!("{}.rand.bin", ty.name()))).unwrap();
    let all: Vec<&[u8]> = all.chunks_exact(ty.block_bytes()).collect();
    let count = n_in * n_out * experts / ty.block_elements();
    let bytes: Vec<u8> = (0..count).flat_map(|i| all[i * 7 % all.len()].to_vec()).collect();
    Weight::new(ty.name(), ty, WeightShape { n_in, n_out, experts }, bytes.into()).unwrap()
}

/// Down projections of routed and shared experts, their sum and the injection: one kernel, and every
/// buffer has the bits that the kernels have alone.
#[test]
fn down_projections_are_summed_up_with_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    let width = SHAPE.width;
    let choice = MoeChoice { experts: 16, used: 5 };
    use TensorType as T;
    for (routed, shared, n_in) in [
        (T::Q2_0, T::Q8_0, 640),
        (T::IQ4_NL, T::IQ4_NL, 96),
        (T::F32, T::BF16, 96),
        (T::IQ2_S, T::Q5_1, 512),
    ] {
        for activations in [Activations::Int8, Activations::F32] {
            let down = gpu.load_matrix(&weight(routed, n_in, width, 16), activations).unwrap();
            let one = gpu.load_matrix(&weight(shared, n_in, width, 1), activations).unwrap();
            for rows in [1, 2, 4, 5] {
                let logits = values(&mut gpu, 1, rows * 16);
                let mut plan = gpu.new_plan();
                gpu.moe_plan(&logits, rows, choice, &mut plan);
                let (act, shared_act) =
                    (values(&mut gpu, 2, rows * 5 * n_in), values(&mut gpu, 3, rows * n_in));
                let gate = values(&mut gpu, 4, rows);
                let (mut part, mut shared_y) =
                    (values(&mut gpu, 5, rows * 5 * width), values(&mut gpu, 6, rows * width));
                // So that both are there in 8 bits, and no kernel comes between.
                gpu.moe_down(&plan, &down, &act, &mut part);
                gpu.matmul(&one, &shared_act, rows, &mut shared_y);
                let mut inner = Vec::new();
                let started = both_ways(&mut gpu, rows, |gpu, y| {
                    gpu.moe_down(&plan, &down, &act, &mut part);
                    if inner.is_empty() {
                        gpu.recorder.submit();
                    }
                    gpu.matmul(&one, &shared_act, rows, &mut shared_y);
                    if inner.is_empty() {
                        gpu.recorder.submit();
                    }
                    let shared = SharedExpert { y: &shared_y, gate: &gate, width };
                    gpu.moe_combine(&plan, &part, shared, y);
                    if inner.is_empty() {
                        inner.push((words(gpu, &part), words(gpu, &shared_y)));
                    }
                });
                let apart = inner.pop().unwrap();
                let together = (words(&mut gpu, &part), words(&mut gpu, &shared_y));
                assert!(apart == together, "{routed} and {shared}, {rows} rows");
                let want = if rows <= 4 { 1 } else { 3 };
                assert_eq!(started, want, "{routed} and {shared}, {rows} rows, {activations:?}");
            }
        }
    }
}

/// More experts than a workgroup has room for: the products wait, and then they go on alone.
#[test]
fn down_projections_of_many_experts_are_summed_up_apart() {
    let Some(mut gpu) = gpu() else { return };
    let width = SHAPE.width;
    let down = gpu.load_matrix(&weight(TensorType::F32, 32, width, 40), Activations::F32).unwrap();
    let one = gpu.load_matrix(&weight(TensorType::F32, 32, width, 1), Activations::F32).unwrap();
    let logits = values(&mut gpu, 1, 40);
    let mut plan = gpu.new_plan();
    gpu.moe_plan(&logits, 1, MoeChoice { experts: 40, used: 35 }, &mut plan);
    let (act, shared_act) = (values(&mut gpu, 2, 35 * 32), values(&mut gpu, 3, 32));
    let gate = values(&mut gpu, 4, 1);
    let (mut part, mut shared_y) = (values(&mut gpu, 5, 35 * width), values(&mut gpu, 6, width));
    let mut apart = true;
    let started = both_ways(&mut gpu, 1, |gpu, y| {
        gpu.moe_down(&plan, &down, &act, &mut part);
        gpu.matmul(&one, &shared_act, 1, &mut shared_y);
        if std::mem::take(&mut apart) {
            gpu.recorder.submit();
        }
        let shared = SharedExpert { y: &shared_y, gate: &gate, width };
        gpu.moe_combine(&plan, &part, shared, y);
    });
    assert_eq!(started, 3);
}

/// Products that wait for their sum are joined by no other, which here reads what one of them makes.
#[test]
fn a_product_behind_those_of_a_sum_is_a_call_of_its_own() {
    let Some(mut gpu) = gpu() else { return };
    // Whole units: otherwise a kernel that pads the next input comes between.
    let (width, float) = (96, Activations::F32);
    let down = gpu.load_matrix(&weight(TensorType::F32, 32, width, 16), float).unwrap();
    let one = gpu.load_matrix(&weight(TensorType::F32, 32, width, 1), float).unwrap();
    let next = gpu.load_matrix(&weight(TensorType::F32, width, 9, 1), float).unwrap();
    let logits = values(&mut gpu, 1, 16);
    let mut plan = gpu.new_plan();
    gpu.moe_plan(&logits, 1, MoeChoice { experts: 16, used: 5 }, &mut plan);
    let (act, shared_act) = (values(&mut gpu, 2, 5 * 32), values(&mut gpu, 3, 32));
    let mut found = Vec::new();
    for apart in [true, false] {
        let (mut part, mut shared_y) = (values(&mut gpu, 5, 5 * width), values(&mut gpu, 6, width));
        let mut y = values(&mut gpu, 7, 9);
        gpu.moe_down(&plan, &down, &act, &mut part);
        gpu.matmul(&one, &shared_act, 1, &mut shared_y);
        if apart {
            gpu.recorder.submit();
        }
        gpu.matmul(&next, &shared_y, 1, &mut y);
        found.push([words(&mut gpu, &part), words(&mut gpu, &shared_y), words(&mut gpu, &y)]);
    }
    assert!(found[0] == found[1]);
}
