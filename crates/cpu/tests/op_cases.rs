//! The cases of `lab`, which also time the kernels, against the reference with every instruction
//! set: all formats and both precisions of activations at small sizes, and each family once.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use gguf::TensorType;
use kernels::Activations::{self, F32, Int8};
use kernels::moe::MoeChoice;
use kernels::rope::RopeScaling;
use kernels::{GdnShape, HcShape, KvType, PleShape, QsaShape};
use lab::{
    Attention, DeltaRule, DeltaStep, Experts, HcStep, HyperConnection, Matmul, Ngram, OpCase,
    Projection, Sampling,
};

const EPS: f32 = 1e-6;

fn check(cases: &[OpCase]) {
    for mut cpu in every_isa() {
        for case in cases {
            if let Err(miss) = case.check(&mut cpu) {
                panic!("{} of {miss}", cpu.isa().name());
            }
        }
    }
}

/// Every format; output rows that are no multiple of a tile or a task.
fn matmuls(n_in: &[usize], rows: &[usize], activations: Activations) -> Vec<OpCase> {
    let mut cases = Vec::new();
    for ty in weight_types() {
        for &n_in in n_in.iter().filter(|n| n.is_multiple_of(ty.block_elements())) {
            for &rows in rows {
                let n_out = 75;
                cases.push(OpCase::Matmul(Matmul { ty, n_in, n_out, rows, activations }));
            }
        }
    }
    cases
}

/// `gemv.rs` has more lengths and rows in f32; 8 bits are held here alone.
#[test]
fn products_with_f32_activations() {
    check(&matmuls(&[160, 512], if is_slow() { &[3] } else { &[1, 4] }, F32));
}

#[test]
fn products_with_activations_of_8_bits() {
    let n_in = if is_slow() { &[320, 512] } else { &[320, 1280] };
    check(&matmuls(n_in, if is_slow() { &[3] } else { &[1, 3, 9] }, Int8));
}

#[test]
fn products_of_long_rows_and_many_outputs() {
    let matmul =
        |ty, n_in, n_out, rows| OpCase::Matmul(Matmul { ty, n_in, n_out, rows, activations: Int8 });
    let mut cases =
        vec![matmul(TensorType::IQ3_S, 2560, 640, 4), matmul(TensorType::F16, 10240, 320, 2)];
    if !is_slow() {
        cases.push(matmul(TensorType::IQ4_NL, 320, 10240, 4));
        cases.push(matmul(TensorType::Q6_K, 2560, 640, 33));
    }
    check(&cases);
}

#[test]
fn experts_with_shared_and_own_choices() {
    let mut cases = Vec::new();
    let choice = MoeChoice { experts: 16, used: 4 };
    let projections = [
        (Projection::GateUp, TensorType::IQ3_S, 256, 96),
        (Projection::FusedGateUp, TensorType::IQ2_XXS, 256, 96),
        (Projection::Down, TensorType::IQ4_NL, 96, 256),
        (Projection::Down, TensorType::Q5_1, 96, 256),
    ];
    for (projection, ty, n_in, n_out) in projections {
        for activations in [F32, Int8] {
            for (shared, rows) in [(0, 1), (4, 3), (1, 8)] {
                let experts =
                    Experts { projection, ty, n_in, n_out, choice, shared, rows, activations };
                cases.push(OpCase::Experts(experts));
            }
        }
    }
    check(&cases);
}

#[test]
fn every_other_family() {
    let gdn = GdnShape { key_heads: 2, value_heads: 6, head_dim: 24, conv_kernel: 4, eps: EPS };
    let hc = HcShape { streams: 4, width: 320, eps: EPS };
    let qsa = QsaShape {
        heads: 4,
        kv_heads: 2,
        head_dim: 40,
        rope_dims: 16,
        rope_base: 1e7,
        rope_scaling: RopeScaling::None,
        index_heads: 2,
        index_dim: 24,
        budget: 32,
        block: 4,
        eps: EPS,
    };
    let ple = PleShape { streams: 4, width: 40, kernel: 4, dilation: 3, eps: EPS };
    let mut cases = Vec::new();
    for rows in [1, 4, 9] {
        for step in [DeltaStep::Conv, DeltaStep::Scan, DeltaStep::OutputGate] {
            cases.push(OpCase::DeltaRule(DeltaRule { step, shape: gdn, rows }));
        }
        for (step, activations) in
            [(HcStep::Read, F32), (HcStep::Read, Int8), (HcStep::Inject, F32)]
        {
            let (shape, rank, ty) = (hc, 64, TensorType::F16);
            let hc = HyperConnection { step, shape, rank, ty, rows, activations };
            cases.push(OpCase::HyperConnection(hc));
        }
        for (block, context) in [(4, 0), (4, 150), (0, 150)] {
            for kv in KvType::ALL {
                let head_dim = if kv == KvType::Q8_0 { 96 } else { 40 };
                let shape = QsaShape { block, head_dim, ..qsa };
                cases.push(OpCase::Attention(Attention { shape, kv, context, rows }));
            }
        }
        cases.push(OpCase::Ngram(Ngram { shape: ple, rows }));
        cases.push(OpCase::Sampling(Sampling { vocab: 1234, rows }));
    }
    check(&cases);
}
