//! The parts of a window: what each takes in time and moves in bytes.

use model::Role;
use std::time::Duration;

/// Families of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Matrices that every token passes, the embedding and the output matrix among them.
    Dense,
    /// Choice of experts.
    Router,
    /// Routed experts.
    Experts,
    /// Shared expert.
    Shared,
    /// Hyper-connections.
    Hc,
    /// Gated DeltaNet, without its matrices.
    Gdn,
    /// Sparse attention, without its matrices.
    Qsa,
    /// N-gram features.
    Ple,
    /// The drafting block, without its decoder layer.
    Mtp,
    /// What leads to the logits, without the output matrix.
    Head,
}

impl Group {
    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Router => "router",
            Self::Experts => "experts",
            Self::Shared => "shared expert",
            Self::Hc => "hc",
            Self::Gdn => "gdn",
            Self::Qsa => "qsa",
            Self::Ple => "ple",
            Self::Mtp => "mtp",
            Self::Head => "head",
        }
    }
}

/// One kind of call: an operation or, for a product with a matrix, the matrix's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Its family.
    pub group: Group,
    /// Its name, unique among all parts.
    pub name: &'static str,
}

impl Part {
    pub(super) const EMBED: Self = Self::new(Group::Dense, "token_embd");
    pub(super) const MOE_PLAN: Self = Self::new(Group::Router, "plan");
    pub(super) const GATE_UP: Self = Self::new(Group::Experts, "gate_up");
    pub(super) const DOWN: Self = Self::new(Group::Experts, "down");
    /// All of a stored expert: its matrices are used as they come.
    pub(super) const STORED: Self = Self::new(Group::Experts, "stored");
    pub(super) const COMBINE: Self = Self::new(Group::Experts, "combine");
    pub(super) const SWIGLU: Self = Self::new(Group::Shared, "swiglu");
    pub(super) const HC_READ: Self = Self::new(Group::Hc, "read");
    pub(super) const HC_INJECT: Self = Self::new(Group::Hc, "inject");
    pub(super) const GDN_CONV: Self = Self::new(Group::Gdn, "conv");
    pub(super) const GDN_SCAN: Self = Self::new(Group::Gdn, "scan");
    pub(super) const GDN_GATE: Self = Self::new(Group::Gdn, "gate");
    pub(super) const APPEND: Self = Self::new(Group::Qsa, "append");
    pub(super) const SELECT: Self = Self::new(Group::Qsa, "select");
    pub(super) const ATTEND: Self = Self::new(Group::Qsa, "attend");
    pub(super) const PLE_GATHER: Self = Self::new(Group::Ple, "gather");
    pub(super) const PLE_MIX: Self = Self::new(Group::Ple, "mix");
    pub(super) const MTP_INPUT: Self = Self::new(Group::Mtp, "input");
    pub(super) const GATHER_ROWS: Self = Self::new(Group::Head, "gather_rows");
    pub(super) const OUTPUT_HC: Self = Self::new(Group::Head, "output_hc");
    pub(super) const DOWNLOAD: Self = Self::new(Group::Head, "download");

    const fn new(group: Group, name: &'static str) -> Self {
        Self { group, name }
    }

    /// The part that products with the matrix of this tensor name count to.
    pub(super) fn of_matrix(tensor: &str) -> Self {
        let Some((role, _)) = Role::of_name(tensor) else {
            return Self::new(Group::Dense, "other matrices");
        };
        let group = match role {
            Role::Router => Group::Router,
            Role::SharedGateInp | Role::SharedGate | Role::SharedUp | Role::SharedDown => {
                Group::Shared
            }
            Role::PleKey | Role::PleValue => Group::Ple,
            Role::MtpEhProj => Group::Mtp,
            _ => Group::Dense,
        };
        Self::new(group, role.short_name())
    }
}

/// Bytes that an operation has to move, however it does so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) weights: usize,
    pub(super) state: usize,
}

/// What a part took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls.
    pub calls: u64,
    /// Time inside the calls.
    pub time: Duration,
    /// Bytes of weights read, in the format of the file; of experts only those in use, each once
    /// per call.
    pub weight_bytes: u64,
    /// Bytes of sequence states read and written: delta-rule states, convolution histories, keys
    /// and values. What several tokens of a window share counts once.
    pub state_bytes: u64,
}

/// What the parts of some windows took, in the order of their first calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    parts: Vec<(Part, Cost)>,
}

impl Profile {
    /// Every part that was called.
    pub fn parts(&self) -> &[(Part, Cost)] {
        &self.parts
    }

    /// All parts together.
    pub fn total(&self) -> Cost {
        let mut total = Cost::default();
        for (_, cost) in &self.parts {
            total.calls += cost.calls;
            total.time += cost.time;
            total.weight_bytes += cost.weight_bytes;
            total.state_bytes += cost.state_bytes;
        }
        total
    }

    pub(super) fn add(&mut self, part: Part, time: Duration, moved: Moved) {
        let place = self.parts.iter().position(|(known, _)| *known == part);
        let place = place.unwrap_or_else(|| {
            self.parts.push((part, Cost::default()));
            self.parts.len() - 1
        });
        let cost = &mut self.parts[place].1;
        cost.calls += 1;
        cost.time += time;
        cost.weight_bytes += moved.weights as u64;
        cost.state_bytes += moved.state as u64;
    }
}
