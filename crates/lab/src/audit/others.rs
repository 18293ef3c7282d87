//! The families without tiles: attention and the delta rule over contexts, the n-gram mixer, the
//! residual streams.

use crate::cases::{GDN, HC, PLE, QSA};
use crate::{
    Attention, Budget, DeltaRule, DeltaStep, HcStep, HyperConnection, Ngram, OpCase, Sampling,
};
use gguf::TensorType;
use kernels::{Activations, Backend, Error, KvType};

/// One operation, timed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Other {
    /// Name of the case.
    pub case: String,
    /// Rows of the window.
    pub rows: usize,
    /// Median seconds.
    pub seconds: f64,
    /// Bytes of states and weights that a call moves.
    pub bytes: u64,
}

/// What is timed, at these rows and contexts.
fn cases(rows: &[usize], contexts: &[usize]) -> Vec<OpCase> {
    let mut all = Vec::new();
    for &rows in rows {
        for &context in contexts {
            let (shape, kv) = (QSA, KvType::F16);
            all.push(OpCase::Attention(Attention { shape, kv, context, rows }));
        }
        for step in [DeltaStep::Conv, DeltaStep::Scan, DeltaStep::OutputGate] {
            all.push(OpCase::DeltaRule(DeltaRule { step, shape: GDN, rows }));
        }
        for (step, ty) in [(HcStep::Read, TensorType::Q8_0), (HcStep::Inject, TensorType::F32)] {
            let (shape, rank, activations) = (HC, 320, Activations::F32);
            let hc = HyperConnection { step, shape, rank, ty, rows, activations };
            all.push(OpCase::HyperConnection(hc));
        }
        all.push(OpCase::Ngram(Ngram { shape: PLE, rows }));
        all.push(OpCase::Sampling(Sampling { vocab: 248_320, rows }));
    }
    all
}

/// Times them, as long as `go_on` says so.
///
/// # Errors
/// A fault of the device.
pub fn others<B: Backend>(
    backend: &mut B,
    (rows, contexts): (&[usize], &[usize]),
    budget: &Budget,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<Other>, Error> {
    let mut found = Vec::new();
    for case in cases(rows, contexts) {
        if !go_on() {
            break;
        }
        let measured = case.bench(backend, budget)?;
        let (seconds, bytes) = (measured.median_us / 1e6, measured.cost.bytes);
        found.push(Other { case: case.name(), rows: case.rows(), seconds, bytes });
    }
    Ok(found)
}
