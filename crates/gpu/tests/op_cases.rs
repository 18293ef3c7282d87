//! The cases of `lab`, which also time the kernels, of the layers with states and streams.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use gguf::TensorType;
use kernels::Activations::{F32, Int8};
use kernels::{GdnShape, HcShape, PleShape};
use lab::{DeltaRule, DeltaStep, HcStep, HyperConnection, Ngram, OpCase};

const EPS: f32 = 1e-6;

fn check(cases: &[OpCase]) {
    let Some(mut gpu) = gpu() else { return };
    for case in cases {
        case.check(&mut gpu).unwrap_or_else(|miss| panic!("{miss}"));
    }
}

#[test]
fn delta_rule() {
    let small = GdnShape { key_heads: 2, value_heads: 6, head_dim: 24, conv_kernel: 4, eps: EPS };
    let real = GdnShape { key_heads: 16, value_heads: 48, head_dim: 128, ..small };
    let mut cases = Vec::new();
    for (shape, rows) in [(small, 1), (small, 4), (small, 40), (real, 2)] {
        for step in [DeltaStep::Conv, DeltaStep::Scan, DeltaStep::OutputGate] {
            cases.push(OpCase::DeltaRule(DeltaRule { step, shape, rows }));
        }
    }
    check(&cases);
}

#[test]
fn hyper_connections() {
    let shape = HcShape { streams: 4, width: 320, eps: EPS };
    let mut cases = Vec::new();
    for (rows, ty) in [(1, TensorType::F16), (4, TensorType::F16), (40, TensorType::Q8_0)] {
        for (step, activations) in
            [(HcStep::Read, F32), (HcStep::Read, Int8), (HcStep::Inject, F32)]
        {
            let rank = 64;
            let hc = HyperConnection { step, shape, rank, ty, rows, activations };
            cases.push(OpCase::HyperConnection(hc));
        }
    }
    check(&cases);
}

#[test]
fn ngram_features() {
    let small = PleShape { streams: 4, width: 40, kernel: 4, dilation: 3, eps: EPS };
    let real = PleShape { width: 2560, ..small };
    let cases = [(small, 1), (small, 4), (small, 40), (real, 2)];
    check(&cases.map(|(shape, rows)| OpCase::Ngram(Ngram { shape, rows })));
}
