//! Tensor roles: what a weight is for, independent of its format.
//!
//! One table holds each role's name pattern and the part of the model it counts to; the shape that
//! a role must have follows from the hyper-parameters and is in `shape.rs`.

use std::fmt;

pub use crate::shape::Shape;

/// What a tensor is for. Names of one layer's tensors are those of `blk.N.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the names in TABLE")]
pub enum Role {
    TokenEmbd,
    Output,
    OutputHcNorm,
    OutputHcDown,
    OutputHcUp,
    NgramTable,
    HcAttnNorm,
    HcAttnDown,
    HcAttnUp,
    HcAttnInject,
    HcFfnNorm,
    HcFfnDown,
    HcFfnUp,
    HcFfnInject,
    Router,
    GateExps,
    UpExps,
    GateUpExps,
    DownExps,
    SharedGateInp,
    SharedGate,
    SharedUp,
    SharedDown,
    GdnQkv,
    GdnGate,
    GdnBeta,
    GdnAlpha,
    GdnConv,
    GdnDt,
    GdnA,
    GdnNorm,
    GdnOut,
    AttnQ,
    AttnK,
    AttnV,
    AttnOutput,
    AttnQNorm,
    AttnKNorm,
    IndexQ,
    IndexK,
    IndexQNorm,
    IndexKNorm,
    PleKey,
    PleValue,
    PleNormKey,
    PleNormQuery,
    PleNormConv,
    PleConv,
    MtpEnorm,
    MtpHnorm,
    MtpEhProj,
    MtpHeadNorm,
    MtpHeadDown,
    MtpHeadUp,
    MtpEmbedTokens,
    MtpHeadOut,
}

/// The parts of a model that bytes are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Token embedding.
    Embedding,
    /// The n-gram table.
    NgramTable,
    /// Routers and shared experts.
    TrunkDense,
    /// Routed experts.
    Experts,
    /// Hyper-connections, the output mixer included.
    HyperConnections,
    /// Gated DeltaNet layers.
    Gdn,
    /// Attention layers, without their indexers.
    Attention,
    /// Indexers of sparse attention layers.
    Indexer,
    /// Projections, norms and convolution of the n-gram features.
    Ple,
    /// The language-model head.
    Head,
    /// Everything of the MTP block.
    Mtp,
}

/// The formats a role accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// F32, F16 or BF16: vectors and convolution taps, which are never quantised.
    Floats,
    /// Any decodable weight format.
    Weights,
}

/// What is done with the tensors of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Norms, biases and convolution taps: small, and used value by value.
    Vector,
    /// Rows are looked up.
    Lookup,
    /// A matrix that activations are multiplied with.
    Matrix,
    /// The same where the result decides something or feeds the gates of a recurrence, so that
    /// rounded activations would hurt.
    ExactMatrix,
    /// A stack of matrices, of which each token uses a few.
    Experts,
}

/// Whether a role occurs once or once per layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Global,
    Layer,
}

/// One row of [`TABLE`].
#[derive(Debug)]
struct Entry {
    role: Role,
    scope: Scope,
    part: Part,
    name: &'static str,
    accepts: Accepts,
}

const fn global(role: Role, part: Part, name: &'static str) -> Entry {
    Entry { role, scope: Scope::Global, part, name, accepts: Accepts::Weights }
}

const fn layer(role: Role, part: Part, name: &'static str) -> Entry {
    Entry { role, scope: Scope::Layer, part, name, accepts: Accepts::Weights }
}

impl Entry {
    const fn floats(self) -> Self {
        Self { accepts: Accepts::Floats, ..self }
    }
}

/// Every role in the order of [`Role`], with its name in a file.
const TABLE: &[Entry] = &[
    global(Role::TokenEmbd, Part::Embedding, "token_embd.weight"),
    global(Role::Output, Part::Head, "output.weight"),
    global(Role::OutputHcNorm, Part::HyperConnections, "output_hc_norm.weight").floats(),
    global(Role::OutputHcDown, Part::HyperConnections, "output_hc_down.weight"),
    global(Role::OutputHcUp, Part::HyperConnections, "output_hc_up.weight"),
    global(Role::NgramTable, Part::NgramTable, "per_layer_token_embd.weight"),
    layer(Role::HcAttnNorm, Part::HyperConnections, "hc_attn_norm.weight").floats(),
    layer(Role::HcAttnDown, Part::HyperConnections, "hc_attn_down.weight"),
    layer(Role::HcAttnUp, Part::HyperConnections, "hc_attn_up.weight"),
    layer(Role::HcAttnInject, Part::HyperConnections, "hc_attn_inject.weight"),
    layer(Role::HcFfnNorm, Part::HyperConnections, "hc_ffn_norm.weight").floats(),
    layer(Role::HcFfnDown, Part::HyperConnections, "hc_ffn_down.weight"),
    layer(Role::HcFfnUp, Part::HyperConnections, "hc_ffn_up.weight"),
    layer(Role::HcFfnInject, Part::HyperConnections, "hc_ffn_inject.weight"),
    layer(Role::Router, Part::TrunkDense, "ffn_gate_inp.weight"),
    layer(Role::GateExps, Part::Experts, "ffn_gate_exps.weight"),
    layer(Role::UpExps, Part::Experts, "ffn_up_exps.weight"),
    layer(Role::GateUpExps, Part::Experts, "ffn_gate_up_exps.weight"),
    layer(Role::DownExps, Part::Experts, "ffn_down_exps.weight"),
    layer(Role::SharedGateInp, Part::TrunkDense, "ffn_gate_inp_shexp.weight"),
    layer(Role::SharedGate, Part::TrunkDense, "ffn_gate_shexp.weight"),
    layer(Role::SharedUp, Part::TrunkDense, "ffn_up_shexp.weight"),
    layer(Role::SharedDown, Part::TrunkDense, "ffn_down_shexp.weight"),
    layer(Role::GdnQkv, Part::Gdn, "attn_qkv.weight"),
    layer(Role::GdnGate, Part::Gdn, "attn_gate.weight"),
    layer(Role::GdnBeta, Part::Gdn, "ssm_beta.weight"),
    layer(Role::GdnAlpha, Part::Gdn, "ssm_alpha.weight"),
    layer(Role::GdnConv, Part::Gdn, "ssm_conv1d.weight").floats(),
    layer(Role::GdnDt, Part::Gdn, "ssm_dt.bias").floats(),
    layer(Role::GdnA, Part::Gdn, "ssm_a").floats(),
    layer(Role::GdnNorm, Part::Gdn, "ssm_norm.weight").floats(),
    layer(Role::GdnOut, Part::Gdn, "ssm_out.weight"),
    layer(Role::AttnQ, Part::Attention, "attn_q.weight"),
    layer(Role::AttnK, Part::Attention, "attn_k.weight"),
    layer(Role::AttnV, Part::Attention, "attn_v.weight"),
    layer(Role::AttnOutput, Part::Attention, "attn_output.weight"),
    layer(Role::AttnQNorm, Part::Attention, "attn_q_norm.weight").floats(),
    layer(Role::AttnKNorm, Part::Attention, "attn_k_norm.weight").floats(),
    layer(Role::IndexQ, Part::Indexer, "indexer.q_proj.weight"),
    layer(Role::IndexK, Part::Indexer, "indexer.k_proj.weight"),
    layer(Role::IndexQNorm, Part::Indexer, "indexer.q_norm.weight").floats(),
    layer(Role::IndexKNorm, Part::Indexer, "indexer.k_norm.weight").floats(),
    layer(Role::PleKey, Part::Ple, "ple_key.weight"),
    layer(Role::PleValue, Part::Ple, "ple_value.weight"),
    layer(Role::PleNormKey, Part::Ple, "ple_norm_key.weight").floats(),
    layer(Role::PleNormQuery, Part::Ple, "ple_norm_query.weight").floats(),
    layer(Role::PleNormConv, Part::Ple, "ple_norm_conv.weight").floats(),
    layer(Role::PleConv, Part::Ple, "ple_conv1d.weight").floats(),
    layer(Role::MtpEnorm, Part::Mtp, "nextn.enorm.weight").floats(),
    layer(Role::MtpHnorm, Part::Mtp, "nextn.hnorm.weight").floats(),
    layer(Role::MtpEhProj, Part::Mtp, "nextn.eh_proj.weight"),
    layer(Role::MtpHeadNorm, Part::Mtp, "nextn.hc_head_norm.weight").floats(),
    layer(Role::MtpHeadDown, Part::Mtp, "nextn.hc_head_down.weight"),
    layer(Role::MtpHeadUp, Part::Mtp, "nextn.hc_head_up.weight"),
    layer(Role::MtpEmbedTokens, Part::Mtp, "nextn.embed_tokens.weight"),
    layer(Role::MtpHeadOut, Part::Mtp, "nextn.shared_head_head.weight"),
];

impl Role {
    /// Every role, in the order of the enum.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.role)
    }

    fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name in a file, with `N` for the layer: `blk.N.ssm_a`.
    #[must_use]
    pub fn pattern(self) -> String {
        match self.entry().scope {
            Scope::Global => self.entry().name.to_owned(),
            Scope::Layer => format!("blk.N.{}", self.entry().name),
        }
    }

    /// The name without layer and `.weight`, for tables: `ssm_out`, `ssm_dt.bias`.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        let name = self.entry().name;
        name.strip_suffix(".weight").unwrap_or(name)
    }

    /// The name in a file; `layer` is ignored for a role that occurs once.
    #[must_use]
    pub fn name(self, layer: usize) -> String {
        match self.entry().scope {
            Scope::Global => self.entry().name.to_owned(),
            Scope::Layer => format!("blk.{layer}.{}", self.entry().name),
        }
    }

    /// The role of a tensor by its name, and the layer for roles that occur once per layer. None
    /// for a name that qwen4exp does not know.
    #[must_use]
    pub fn of_name(name: &str) -> Option<(Self, Option<usize>)> {
        let (scope, layer, rest) = match name.strip_prefix("blk.") {
            Some(rest) => {
                let (number, rest) = rest.split_once('.')?;
                (Scope::Layer, Some(layer_number(number)?), rest)
            }
            None => (Scope::Global, None, name),
        };
        let entry = TABLE.iter().find(|entry| entry.scope == scope && entry.name == rest)?;
        Some((entry.role, layer))
    }

    /// The part that the role counts to in a trunk layer.
    #[must_use]
    pub fn part(self) -> Part {
        self.entry().part
    }

    /// The part of a tensor in a model of `trunk` layers: layers behind the trunk are MTP blocks.
    #[must_use]
    pub fn part_at(self, layer: Option<usize>, trunk: usize) -> Part {
        if layer.is_some_and(|n| n >= trunk) { Part::Mtp } else { self.part() }
    }

    /// What is done with its tensors.
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            _ if self.accepts() == Accepts::Floats => Purpose::Vector,
            Self::TokenEmbd | Self::NgramTable | Self::MtpEmbedTokens => Purpose::Lookup,
            Self::GateExps | Self::UpExps | Self::GateUpExps | Self::DownExps => Purpose::Experts,
            Self::HcAttnInject
            | Self::HcFfnInject
            | Self::Router
            | Self::SharedGateInp
            | Self::GdnAlpha
            | Self::GdnBeta
            | Self::IndexQ
            | Self::IndexK => Purpose::ExactMatrix,
            _ => Purpose::Matrix,
        }
    }

    /// The formats that can serve in this role.
    #[must_use]
    pub fn accepts(self) -> Accepts {
        self.entry().accepts
    }
}

/// A layer number in its only spelling: no sign, no leading zero.
fn layer_number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl Part {
    /// The name that reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "token embedding",
            Self::NgramTable => "n-gram table",
            Self::TrunkDense => "routers and shared experts",
            Self::Experts => "routed experts",
            Self::HyperConnections => "hyper-connections",
            Self::Gdn => "Gated DeltaNet",
            Self::Attention => "attention",
            Self::Indexer => "indexer",
            Self::Ple => "n-gram projections",
            Self::Head => "head",
            Self::Mtp => "MTP block",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.pattern())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_follows_the_enum_and_names_go_both_ways() {
        for (index, role) in Role::all().enumerate() {
            assert_eq!(role as usize, index);
            let (found, layer) = Role::of_name(&role.name(47)).unwrap();
            assert_eq!(found, role);
            assert_eq!(layer.is_some(), role.pattern().starts_with("blk.N."));
            assert!(layer.is_none_or(|n| n == 47));
        }
        assert_eq!(Role::MtpHeadOut as usize + 1, TABLE.len());
    }

    #[test]
    fn names_that_are_not_roles() {
        let names = [
            "",
            "blk.",
            "blk.0",
            "blk.0.",
            "blk.0.nothing.weight",
            "blk.-1.ssm_a",
            "blk.+1.ssm_a",
            "blk.01.ssm_a",
            "blk.99999999999999999999.ssm_a",
            "ssm_a",
            "blk.0.token_embd.weight",
            "output_norm.weight",
        ];
        for name in names {
            assert_eq!(Role::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn blocks_behind_the_trunk_count_as_mtp() {
        let (role, layer) = Role::of_name("blk.8.attn_q.weight").unwrap();
        assert_eq!((role.part_at(layer, 8), role.part_at(layer, 9)), (Part::Mtp, Part::Attention));
        assert_eq!(Role::Output.part_at(None, 0), Part::Head);
    }
}
