//! The standard cases: every format with the shapes of the full-size model, and the other families.

use crate::ops::{
    Attention, DeltaRule, DeltaStep, DraftInput, Experts, HcStep, HyperConnection, Matmul, Ngram,
    Projection, Sampling,
};
use crate::{OpCase, weight_types};
use gguf::TensorType;
use kernels::moe::MoeChoice;
use kernels::mtp::NormExtent;
use kernels::rope::RopeScaling;
use kernels::{Activations, GdnShape, HcShape, KvType, PleShape, QsaShape};

/// Matrices of the full-size model, `(n_in, n_out)`: the delta-rule projections, down and up of the
/// hyper-connections, gate and up and down of an expert, and rows as short as those of the n-gram
/// table.
pub const SHAPES: [(usize, usize); 6] =
    [(2560, 10240), (10240, 320), (320, 10240), (2560, 640), (640, 2560), (160, 2560)];

/// Rows of a window: decoding, verifying drafts, a piece of a prompt.
pub const ROWS: [usize; 6] = [1, 2, 3, 4, 8, 32];

const PRECISIONS: [Activations; 2] = [Activations::F32, Activations::Int8];

const EPS: f32 = 1e-6;

/// Residual streams of the full-size model.
pub const HC: HcShape = HcShape { streams: 4, width: 2560, eps: EPS };

/// Delta-rule layer of the full-size model.
pub const GDN: GdnShape =
    GdnShape { key_heads: 16, value_heads: 48, head_dim: 128, conv_kernel: 4, eps: EPS };

/// Sparse attention layer of the full-size model.
pub const QSA: QsaShape = QsaShape {
    heads: 24,
    kv_heads: 2,
    head_dim: 256,
    rope_dims: 64,
    rope_base: 1e7,
    rope_scaling: RopeScaling::None,
    index_heads: 4,
    index_dim: 128,
    budget: 2048,
    block: 4,
    eps: EPS,
};

/// n-gram feature layer of the full-size model.
pub const PLE: PleShape = PleShape { streams: 4, width: 2560, kernel: 4, dilation: 3, eps: EPS };

/// How large the cases of a list are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Matrices, `(n_in, n_out)`; a format takes those whose rows are whole blocks.
    pub(crate) shapes: &'static [(usize, usize)],
    /// Projections of experts with `n_in` and `n_out`.
    pub(crate) projections: &'static [(Projection, usize, usize)],
    /// Experts, how many a row uses, and how many of these all rows have in common.
    pub(crate) choice: (MoeChoice, usize),
    pub(crate) gdn: GdnShape,
    /// Residual streams, and the rank of their gates.
    pub(crate) hc: (HcShape, usize),
    pub(crate) qsa: QsaShape,
    /// Tokens before the window.
    pub(crate) contexts: &'static [usize],
    pub(crate) ple: PleShape,
    pub(crate) vocab: usize,
}

/// The full-size model. Few experts are enough to check; a benchmark takes as many as the caches
/// cannot hold. Rows of a window have 4 of their 10 experts in common.
pub(crate) const FULL: Scale = Scale {
    shapes: &SHAPES,
    projections: &[
        (Projection::GateUp, 2560, 640),
        (Projection::FusedGateUp, 2560, 640),
        (Projection::Down, 640, 2560),
    ],
    choice: (MoeChoice { experts: 24, used: 10 }, 4),
    gdn: GDN,
    hc: (HC, 320),
    qsa: QSA,
    contexts: &[1000, 4000],
    ple: PLE,
    vocab: 248_320,
};

/// All standard cases.
pub fn standard() -> Vec<OpCase> {
    of_scale(&FULL, &ROWS)
}

/// The standard cases whose name contains one of `filters`; all of them if there are no filters.
pub fn matching(filters: &[String]) -> Vec<OpCase> {
    retain(standard(), filters)
}

/// Those of `cases` whose name contains one of `filters`; all of them if there are no filters.
pub(crate) fn retain(mut cases: Vec<OpCase>, filters: &[String]) -> Vec<OpCase> {
    cases.retain(|case| {
        let name = case.name();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
    });
    cases
}

/// Every family and format at this scale, in windows of so many rows.
pub(crate) fn of_scale(scale: &Scale, rows: &[usize]) -> Vec<OpCase> {
    let mut cases = matmuls(scale, rows);
    cases.extend(experts(scale, rows));
    cases.extend(rows.iter().flat_map(|rows| others(scale, *rows)));
    cases
}

fn fits(ty: TensorType, n_in: usize) -> bool {
    n_in.is_multiple_of(ty.block_elements())
}

fn matmuls(scale: &Scale, rows: &[usize]) -> Vec<OpCase> {
    let mut cases = Vec::new();
    for ty in weight_types() {
        for &(n_in, n_out) in scale.shapes.iter().filter(|(n_in, _)| fits(ty, *n_in)) {
            for activations in PRECISIONS {
                for &rows in rows {
                    let matmul = Matmul { ty, n_in, n_out, rows, activations };
                    cases.push(OpCase::Matmul(matmul));
                }
            }
        }
    }
    cases
}

fn experts(scale: &Scale, rows: &[usize]) -> Vec<OpCase> {
    let mut cases = Vec::new();
    let (choice, shared) = scale.choice;
    for ty in weight_types() {
        for &(projection, n_in, n_out) in scale.projections.iter().filter(|s| fits(ty, s.1)) {
            for activations in PRECISIONS {
                for &rows in rows {
                    cases.push(OpCase::Experts(Experts {
                        projection,
                        ty,
                        n_in,
                        n_out,
                        choice,
                        shared,
                        rows,
                        activations,
                    }));
                }
            }
        }
    }
    cases
}

fn others(scale: &Scale, rows: usize) -> Vec<OpCase> {
    let mut cases = Vec::new();
    for step in [DeltaStep::Conv, DeltaStep::Scan, DeltaStep::OutputGate] {
        cases.push(OpCase::DeltaRule(DeltaRule { step, shape: scale.gdn, rows }));
    }
    let (streams, rank) = scale.hc;
    let hc = |step, ty, activations| {
        let shape = streams;
        OpCase::HyperConnection(HyperConnection { step, shape, rank, ty, rows, activations })
    };
    for ty in [TensorType::F16, TensorType::Q8_0] {
        cases.extend(PRECISIONS.map(|activations| hc(HcStep::Read, ty, activations)));
    }
    cases.push(hc(HcStep::Inject, TensorType::F32, Activations::F32));
    for &context in scale.contexts {
        for shape in [scale.qsa, QsaShape { block: 0, ..scale.qsa }] {
            for kv in KvType::ALL {
                cases.push(OpCase::Attention(Attention { shape, kv, context, rows }));
            }
        }
    }
    cases.push(OpCase::Ngram(Ngram { shape: scale.ple, rows }));
    for extent in [NormExtent::Whole, NormExtent::PerStream] {
        cases.push(OpCase::DraftInput(DraftInput { shape: streams, extent, rows }));
    }
    cases.push(OpCase::Sampling(Sampling { vocab: scale.vocab, rows }));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_tell_the_cases_apart() {
        let cases = standard();
        let names: HashSet<String> = cases.iter().map(OpCase::name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.contains("gemv/IQ3_S/2560x10240/T4/int8"));
        assert!(names.contains("gemv/IQ4_NL/640x2560/T1/f32"));
        assert!(!names.iter().any(|name| name.contains("gemv/Q4_K/640x2560")));
        assert_eq!(matching(&["gemv/IQ3_S/2560x10240/T4".into()]).len(), 2);
        assert_eq!(matching(&["argmax".into(), "ple_mix".into()]).len(), 2 * ROWS.len());
    }
}
