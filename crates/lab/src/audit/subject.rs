//! What is audited: the products of a model, each format and shape once.

use crate::{Experts, Matmul, OpCase, Projection};
use gguf::TensorType;
use kernels::Activations;
use kernels::moe::MoeChoice;
use kernels::tiles::{self, Shape};
use model::{Checkpoint, Purpose, Role, Tensor};

/// Rows of windows, weight rows and experts that are held against the reference. Devices cut taller
/// matrices as they do these, and the bits of a row do not depend on the others of its window.
const HELD_ROWS: usize = 8;
const HELD_WEIGHT_ROWS: usize = 5120;
const HELD_EXPERTS: usize = 64;

/// A kind of product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// All rows of the window with one matrix.
    Matrix,
    /// Rows with their experts.
    Experts(Projection, MoeChoice),
}

/// Products of one format and shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// What the weights are for, by their names in files.
    pub roles: Vec<String>,
    /// How many of them a window has.
    pub uses: usize,
    /// The kind.
    pub products: Products,
    /// Format of the weights.
    pub ty: TensorType,
    /// Values of a weight row.
    pub n_in: usize,
    /// Weight rows, of one expert.
    pub n_out: usize,
    /// Precision of the activations.
    pub activations: Activations,
}

impl Subject {
    /// What a tile is chosen by.
    pub fn shape(&self) -> Shape {
        let product = match self.products {
            Products::Matrix => tiles::Product::Matrix,
            Products::Experts(..) => tiles::Product::Experts,
        };
        let Self { ty, n_in, n_out, activations, .. } = *self;
        Shape { product, ty, activations, n_in, n_out }
    }

    /// The product of a window of `rows` rows, of whose experts `share` (0 to 1) are chosen by all.
    pub fn case(&self, rows: usize, share: f64) -> OpCase {
        let Self { ty, n_in, n_out, activations, .. } = *self;
        match self.products {
            Products::Matrix => OpCase::Matmul(Matmul { ty, n_in, n_out, rows, activations }),
            Products::Experts(projection, choice) => {
                let shared = (share * choice.used as f64).round() as usize;
                let shared = shared.min(choice.used);
                OpCase::Experts(Experts {
                    projection,
                    ty,
                    n_in,
                    n_out,
                    choice,
                    shared,
                    rows,
                    activations,
                })
            }
        }
    }

    /// The product that is held against the reference before tiles are tried: as that of a window
    /// of `rows` rows, with as few rows, weight rows and experts as still meet every kernel, since
    /// the reference is slow.
    pub fn held_case(&self, rows: usize, share: f64) -> OpCase {
        let mut small = Self { n_out: self.n_out.min(HELD_WEIGHT_ROWS), ..self.clone() };
        if let Products::Experts(_, choice) = &mut small.products {
            choice.experts = choice.experts.min(HELD_EXPERTS.max(2 * choice.used));
        }
        small.case(rows.min(HELD_ROWS), share)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.products == other.products
    }
}

/// The products of a model's trunk, in their order in a window. `activations_of` is the engine's
/// word on the precision of a role.
pub fn of_model(
    checkpoint: &Checkpoint,
    activations_of: impl Fn(Role) -> Activations,
) -> Vec<Subject> {
    let choice = MoeChoice { experts: checkpoint.hp.moe.experts, used: checkpoint.hp.moe.used };
    let mut subjects: Vec<Subject> = Vec::new();
    for tensor in checkpoint.trunk_tensors() {
        let products = match (tensor.role.purpose(), tensor.role) {
            (Purpose::Matrix | Purpose::ExactMatrix, _) => Products::Matrix,
            // Gate and up are one operation.
            (Purpose::Experts, Role::UpExps) | (Purpose::Vector | Purpose::Lookup, _) => continue,
            (Purpose::Experts, role) => Products::Experts(projection(role), choice),
        };
        add(&mut subjects, subject(tensor, products, activations_of(tensor.role)));
    }
    subjects
}

fn projection(role: Role) -> Projection {
    match role {
        Role::GateExps => Projection::GateUp,
        Role::GateUpExps => Projection::FusedGateUp,
        _ => Projection::Down,
    }
}

fn subject(tensor: &Tensor, products: Products, activations: Activations) -> Subject {
    let fused = matches!(products, Products::Experts(Projection::FusedGateUp, _));
    Subject {
        roles: vec![tensor.role.short_name().to_owned()],
        uses: 1,
        products,
        ty: tensor.ty,
        n_in: tensor.n_in,
        n_out: if fused { tensor.n_out / 2 } else { tensor.n_out },
        activations,
    }
}

/// Adds a product, or counts it to those that are like it.
fn add(subjects: &mut Vec<Subject>, new: Subject) {
    match subjects.iter_mut().find(|known| known.is_like(&new)) {
        Some(known) => {
            known.uses += new.uses;
            if !known.roles.contains(&new.roles[0]) {
                known.roles.extend(new.roles);
            }
        }
        None => subjects.push(new),
    }
}

/// The products of the full-size model in the formats of its usual 3-bit files, for an audit
/// without a file.
pub fn flash_next() -> Vec<Subject> {
    use TensorType::{F16, IQ3_S, IQ4_NL, IQ4_XS, Q6_K, Q8_0};
    let choice = MoeChoice { experts: 512, used: 10 };
    let gate_up = Products::Experts(Projection::GateUp, choice);
    let down = Products::Experts(Projection::Down, choice);
    let list = [
        ("attn_qkv", 36, IQ4_XS, 2560, 10240, Products::Matrix),
        ("attn_gate", 36, IQ4_XS, 2560, 6144, Products::Matrix),
        ("ssm_out", 36, IQ4_XS, 6144, 2560, Products::Matrix),
        ("attn_q", 12, IQ4_XS, 2560, 12288, Products::Matrix),
        ("attn_k", 24, IQ4_XS, 2560, 512, Products::Matrix),
        ("attn_output", 12, IQ4_XS, 6144, 2560, Products::Matrix),
        ("hc_down", 96, Q8_0, 10240, 320, Products::Matrix),
        ("hc_up", 96, Q8_0, 320, 10240, Products::Matrix),
        ("hc_inject", 96, F16, 2560, 4, Products::Matrix),
        ("ffn_gate_inp", 48, F16, 2560, 512, Products::Matrix),
        ("ffn_gate_exps", 48, IQ3_S, 2560, 640, gate_up),
        ("ffn_down_exps", 48, IQ4_NL, 640, 2560, down),
        ("ffn_up_shexp", 96, Q8_0, 2560, 640, Products::Matrix),
        ("ffn_down_shexp", 48, Q8_0, 640, 2560, Products::Matrix),
        ("output", 1, Q6_K, 2560, 248_320, Products::Matrix),
    ];
    let mut subjects = Vec::new();
    for (role, uses, ty, n_in, n_out, products) in list {
        let (roles, exact) = (vec![role.to_owned()], matches!(ty, F16));
        let activations = if exact { Activations::F32 } else { Activations::Int8 };
        add(&mut subjects, Subject { roles, uses, products, ty, n_in, n_out, activations });
    }
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_one_shape_are_one_subject() {
        let mut subjects = Vec::new();
        for subject in flash_next() {
            add(&mut subjects, subject.clone());
            add(&mut subjects, Subject { roles: vec!["again".to_owned()], ..subject });
        }
        assert_eq!(subjects.len(), flash_next().len());
        assert_eq!((subjects[0].uses, subjects[0].roles.len()), (72, 2));
    }

    #[test]
    fn a_share_of_experts_is_a_number_of_them() {
        let subjects = flash_next();
        let experts = subjects.iter().find(|s| s.roles[0] == "ffn_gate_exps").unwrap();
        assert!(experts.case(4, 0.4).name().contains("/shared4/T4/"));
        assert!(experts.case(2, 7.0).name().contains("/shared10/"));
        assert_eq!(experts.shape().name(), "experts/IQ3_S/2560x640/int8");
        // What is held against the reference has fewer of everything.
        let held = experts.held_case(512, 0.4).name();
        assert_eq!(held, "moe_gate_up/IQ3_S/2560x640/10of64/shared4/T8/int8");
        let output = subjects.iter().find(|s| s.roles[0] == "output").unwrap();
        assert_eq!(output.held_case(1, 0.4).name(), "gemv/Q6_K/2560x5120/T1/int8");
    }
}
