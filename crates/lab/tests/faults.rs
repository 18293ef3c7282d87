//! A case passes what it must pass and catches each kind of wrong result, with a message that names
//! the place.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod toy;

use gguf::TensorType;
use kernels::Activations::{self, F32, Int8};
use kernels::moe::MoeChoice;
use kernels::mtp::NormExtent;
use kernels::rope::RopeScaling;
use kernels::{GdnShape, HcShape, KvType, PleShape, QsaShape};
use lab::{
    Attention, DeltaRule, DeltaStep, DraftInput, Experts, Fault, HcStep, HyperConnection, Input,
    Matmul, Ngram, OpCase, Projection, Sampling, weight_types,
};
use toy::{Toy, Way};

fn matmul(ty: TensorType, n_in: usize, activations: Activations) -> OpCase {
    OpCase::Matmul(Matmul { ty, n_in, n_out: 130, rows: 4, activations })
}

fn experts(projection: Projection, activations: Activations) -> OpCase {
    let choice = MoeChoice { experts: 8, used: 3 };
    let (ty, n_in, n_out) = (TensorType::IQ4_NL, 128, 96);
    let (shared, rows) = (1, 3);
    OpCase::Experts(Experts { projection, ty, n_in, n_out, choice, shared, rows, activations })
}

fn hc_read(activations: Activations) -> OpCase {
    let shape = HcShape { streams: 4, width: 256, eps: 1e-6 };
    let (step, ty, rank, rows) = (HcStep::Read, TensorType::F16, 64, 3);
    OpCase::HyperConnection(HyperConnection { step, shape, rank, ty, rows, activations })
}

fn fault(case: &OpCase, way: Way) -> Fault {
    *case.check(&mut Toy::new(way)).unwrap_err().fault
}

#[test]
fn rounding_to_8_bits_passes_where_it_is_allowed_for_every_format() {
    for ty in weight_types() {
        let worst = matmul(ty, 512, Int8).check(&mut Toy::new(Way::EightBits)).unwrap();
        assert!(worst.share > 0.0, "{}: nothing was rounded", ty.name());
        matmul(ty, 512, F32).check(&mut Toy::new(Way::EightBits)).unwrap();
        let found = fault(&matmul(ty, 512, F32), Way::EightBitsAlways);
        assert!(matches!(found, Fault::Value { .. }), "{}: {found}", ty.name());
    }
    for projection in [Projection::GateUp, Projection::FusedGateUp, Projection::Down] {
        experts(projection, Int8).check(&mut Toy::new(Way::EightBits)).unwrap();
        let found = fault(&experts(projection, F32), Way::EightBitsAlways);
        assert!(matches!(found, Fault::Value { .. }), "{found}");
    }
    hc_read(Int8).check(&mut Toy::new(Way::EightBits)).unwrap();
    assert!(matches!(fault(&hc_read(F32), Way::EightBitsAlways), Fault::Value { .. }));
}

#[test]
fn every_fault_of_a_product_is_caught_in_either_precision() {
    // Long rows, where the worst case of the rounding of activations is far above its usual size.
    for (ty, n_in) in [(TensorType::Q8_0, 10240), (TensorType::IQ3_S, 2560)] {
        for activations in [F32, Int8] {
            let case = matmul(ty, n_in, activations);
            case.check(&mut Toy::new(Way::Exact)).unwrap();
            type Is = fn(&Fault) -> bool;
            let expected: [(Way, Is); 8] = [
                (Way::WrongValue, |f| matches!(f, Fault::Value { .. })),
                (Way::Nan, |f| matches!(f, Fault::NotFinite(_))),
                (Way::Untouched, |f| matches!(f, Fault::Untouched(_))),
                (Way::PastEnd, |f| matches!(f, Fault::PastEnd { past: 0, .. })),
                (Way::NeighbourGroup, |f| matches!(f, Fault::Value { .. })),
                (Way::WrongRow, |f| matches!(f, Fault::Value { .. })),
                (Way::HidesNan, |f| matches!(f, Fault::Hidden(_))),
                (Way::Company, |f| matches!(f, Fault::Company { .. })),
            ];
            for (way, is) in expected {
                let found = fault(&case, way);
                assert!(is(&found), "{}, {way:?}: {found}", case.name());
            }
        }
        let found = fault(&matmul(ty, n_in, Int8), Way::NeighbourScale);
        assert!(matches!(found, Fault::Value { .. }), "{found}");
    }
}

#[test]
fn a_message_names_case_device_place_values_and_bound() {
    let case = OpCase::Matmul(Matmul {
        ty: TensorType::Q8_0,
        n_in: 64,
        n_out: 7,
        rows: 2,
        activations: F32,
    });
    let miss = case.check(&mut Toy::new(Way::Untouched)).unwrap_err();
    let Fault::Untouched(place) = &*miss.fault else { panic!("{miss}") };
    assert_eq!((place.input, place.output), (Input::Uniform, "y"));
    assert_eq!((place.row, place.column), (1, 6));
    let (expected, bound) = (place.expected, place.bound);
    assert_eq!(
        miss.to_string(),
        format!(
            "gemv/Q8_0/64x7/T2/f32 on toy: uniform input, y[row 1, 6]: found NaN, \
             expected {expected:e} within {bound:.3e}: never written"
        )
    );
}

#[test]
fn faults_of_the_other_families_are_caught() {
    let rows = 3;
    let gdn = GdnShape { key_heads: 2, value_heads: 6, head_dim: 24, conv_kernel: 4, eps: 1e-6 };
    let step = |step| OpCase::DeltaRule(DeltaRule { step, shape: gdn, rows });
    let qsa = QsaShape {
        heads: 4,
        kv_heads: 2,
        head_dim: 40,
        rope_dims: 16,
        rope_base: 1e7,
        rope_scaling: RopeScaling::None,
        index_heads: 2,
        index_dim: 24,
        budget: 8,
        block: 4,
        eps: 1e-6,
    };
    let attention = |block| {
        let shape = QsaShape { block, ..qsa };
        OpCase::Attention(Attention { shape, kv: KvType::F32, context: 37, rows })
    };
    let ple = PleShape { streams: 4, width: 40, kernel: 4, dilation: 3, eps: 1e-6 };
    let ngram = OpCase::Ngram(Ngram { shape: ple, rows });
    let sampling = OpCase::Sampling(Sampling { vocab: 333, rows: 4 });
    let hc = HcShape { streams: 4, width: 40, eps: 1e-6 };
    let extent = NormExtent::Whole;
    let draft_input = OpCase::DraftInput(DraftInput { shape: hc, extent, rows });
    let inject = OpCase::HyperConnection(HyperConnection {
        step: HcStep::Inject,
        shape: hc,
        rank: 8,
        ty: TensorType::F32,
        rows,
        activations: F32,
    });
    let right = [step(DeltaStep::Conv), step(DeltaStep::OutputGate), attention(0), inject];
    for case in right {
        case.check(&mut Toy::new(Way::Exact)).unwrap();
    }
    let wrong = [
        (step(DeltaStep::Scan), Way::WrongValue),
        (attention(4), Way::WrongRow),
        (ngram, Way::WrongRow),
        (draft_input, Way::WrongRow),
        (sampling, Way::WrongRow),
        (experts(Projection::GateUp, Int8), Way::WrongRow),
        (experts(Projection::Down, Int8), Way::WrongRow),
        (experts(Projection::FusedGateUp, Int8), Way::NeighbourGroup),
        (experts(Projection::Down, Int8), Way::HidesNan),
        (hc_read(Int8), Way::NeighbourGroup),
    ];
    for (case, way) in wrong {
        case.check(&mut Toy::new(Way::Exact)).unwrap();
        let found = case.check(&mut Toy::new(way));
        assert!(found.is_err(), "{}, {way:?}: {found:?}", case.name());
    }
}
