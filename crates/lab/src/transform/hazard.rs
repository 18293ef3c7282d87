//! Formats that are known to hurt in some roles, or that few weights survive.

use std::fmt;

use gguf::TensorType;
use model::Role;

use super::{PlannedTensor, Target};

/// A kind of damage that a choice of formats does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hazard {
    /// Stream injections below Q8_0.
    CoarseInjection,
    /// Quantised decay or write gates.
    CoarseGate,
    /// A format whose encoder rounds to two or three values.
    Ternary,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hazard::CoarseInjection => {
                "injections below q8_0 visibly damage the output; keep them at q8_0 or above"
            }
            Hazard::CoarseGate => {
                "quantised decay and write gates drift over long contexts; keep them as f32"
            }
            Hazard::Ternary => {
                "this encoder rounds to two or three values, which only weights trained for it bear"
            }
        })
    }
}

/// The hazards of a target's tensors that are encoded anew, each with the names of its tensors.
pub fn hazards(target: &Target) -> Vec<(Hazard, Vec<&str>)> {
    let mut found: Vec<(Hazard, Vec<&str>)> = Vec::new();
    for tensor in target.tensors().filter(|tensor| tensor.encoded) {
        for hazard in of(tensor) {
            match found.iter_mut().find(|(known, _)| *known == hazard) {
                Some((_, names)) => names.push(&tensor.name),
                None => found.push((hazard, vec![&tensor.name])),
            }
        }
    }
    found.sort_by_key(|(hazard, _)| *hazard);
    found
}

fn of(tensor: &PlannedTensor) -> impl Iterator<Item = Hazard> {
    let role = Role::of_name(&tensor.name).map(|(role, _)| role);
    let inject = matches!(role, Some(Role::HcAttnInject | Role::HcFfnInject));
    let gate = matches!(role, Some(Role::GdnAlpha | Role::GdnBeta));
    let ternary = matches!(
        tensor.ty,
        TensorType::Q1_0 | TensorType::Q2_0 | TensorType::TQ1_0 | TensorType::TQ2_0
    );
    let all = [
        (Hazard::CoarseInjection, inject && below_q8_0(tensor.ty)),
        (Hazard::CoarseGate, gate && tensor.ty.is_quantized()),
        (Hazard::Ternary, ternary),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(hazard, _)| hazard)
}

/// Whether a format spends fewer bits on a value than Q8_0 does.
fn below_q8_0(ty: TensorType) -> bool {
    let q8_0 = TensorType::Q8_0;
    ty.block_bytes() * q8_0.block_elements() < q8_0.block_bytes() * ty.block_elements()
}
