//! The shape that each role must have, from the hyper-parameters.

use std::fmt;

use crate::hparams::HyperParams;
use crate::role::Role;

/// A tensor's shape in GGUF order: the contiguous (input) dimension first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `{n}`: a vector, or a matrix of one row.
    Vector(usize),
    /// `{n_in, n_out}`: `n_out` rows of `n_in` values.
    Matrix(usize, usize),
    /// `{n_in, rows}` with at least so many rows; rows beyond are padding.
    Table(usize, u64),
    /// `{n_in, n_out, experts}`: one matrix per expert.
    Experts(usize, usize, usize),
}

/// The sizes of a tensor that has the shape it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    pub(crate) experts: usize,
}

impl Shape {
    /// The sizes of a tensor with these dimensions, or None if they are not this shape. Trailing
    /// dimensions of 1 may be written or left out.
    pub(crate) fn sizes(self, dims: &[u64]) -> Option<Sizes> {
        let rest = dims.get(3..).unwrap_or(&[]);
        if rest.iter().any(|d| *d != 1) {
            return None;
        }
        let dim = |i: usize| usize::try_from(dims.get(i).copied().unwrap_or(1)).ok();
        let found = (dim(0)?, dim(1)?, dim(2)?);
        let fits = match self {
            Self::Vector(n) => found == (n, 1, 1),
            Self::Matrix(n_in, n_out) => found == (n_in, n_out, 1),
            Self::Table(n_in, rows) => found.0 == n_in && found.1 as u64 >= rows && found.2 == 1,
            Self::Experts(n_in, n_out, experts) => found == (n_in, n_out, experts),
        };
        fits.then_some(Sizes { n_in: found.0, n_out: found.1, experts: found.2 })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(n) => write!(f, "{{{n}}}"),
            Self::Matrix(n_in, n_out) => write!(f, "{{{n_in}, {n_out}}}"),
            Self::Table(n_in, rows) => write!(f, "{{{n_in}, {rows} or more}}"),
            Self::Experts(n_in, n_out, experts) => write!(f, "{{{n_in}, {n_out}, {experts}}}"),
        }
    }
}

impl Role {
    /// The shape that this role has in a model; None for the n-gram roles of a model without them.
    #[must_use]
    pub fn shape(self, hp: &HyperParams) -> Option<Shape> {
        let (embd, wide, rank) = (hp.embd, hp.stream_dim(), hp.hc.rank);
        let (keys, values) = (hp.kv_dim(), hp.gdn_value_dim());
        let (moe, gdn, indexer, ple) = (&hp.moe, &hp.gdn, &hp.indexer, hp.ple.as_ref());
        Some(match self {
            Self::TokenEmbd | Self::Output => Shape::Matrix(embd, hp.vocab),
            Self::OutputHcNorm | Self::HcAttnNorm | Self::HcFfnNorm => Shape::Vector(wide),
            Self::OutputHcDown | Self::HcAttnDown | Self::HcFfnDown => Shape::Matrix(wide, rank),
            Self::OutputHcUp | Self::HcAttnUp | Self::HcFfnUp => Shape::Matrix(rank, wide),
            Self::HcAttnInject | Self::HcFfnInject => Shape::Matrix(wide, hp.hc.streams),

            Self::Router => Shape::Matrix(embd, moe.experts),
            Self::GateExps | Self::UpExps => Shape::Experts(embd, moe.expert_ff, moe.experts),
            Self::GateUpExps => Shape::Experts(embd, 2 * moe.expert_ff, moe.experts),
            Self::DownExps => Shape::Experts(moe.expert_ff, embd, moe.experts),
            Self::SharedGateInp => Shape::Vector(embd),
            Self::SharedGate | Self::SharedUp => Shape::Matrix(embd, moe.shared_ff),
            Self::SharedDown => Shape::Matrix(moe.shared_ff, embd),

            Self::GdnQkv => Shape::Matrix(embd, hp.gdn_channels()),
            Self::GdnGate => Shape::Matrix(embd, values),
            Self::GdnBeta | Self::GdnAlpha => Shape::Matrix(embd, gdn.value_heads),
            Self::GdnConv => Shape::Matrix(gdn.conv_kernel, hp.gdn_channels()),
            Self::GdnDt | Self::GdnA => Shape::Vector(gdn.value_heads),
            Self::GdnNorm => Shape::Vector(gdn.head_dim),
            Self::GdnOut => Shape::Matrix(values, embd),

            Self::AttnQ => Shape::Matrix(embd, 2 * hp.attn_dim()),
            Self::AttnK | Self::AttnV => Shape::Matrix(embd, keys),
            Self::AttnOutput => Shape::Matrix(hp.attn_dim(), embd),
            Self::AttnQNorm | Self::AttnKNorm => Shape::Vector(hp.attn.head_dim),
            Self::IndexQ => Shape::Matrix(embd, hp.index_dim()),
            Self::IndexK => Shape::Matrix(embd, indexer.head_dim),
            Self::IndexQNorm | Self::IndexKNorm => Shape::Vector(indexer.head_dim),

            Self::NgramTable => Shape::Table(ple?.row_width, ple?.rows_needed()),
            Self::PleKey => Shape::Matrix(ple?.width(), wide),
            Self::PleValue => Shape::Matrix(ple?.width(), embd),
            Self::PleNormKey | Self::PleNormQuery | Self::PleNormConv => {
                ple?;
                Shape::Vector(wide)
            }
            Self::PleConv => Shape::Matrix(ple?.conv_kernel, wide),

            Self::MtpEnorm => Shape::Vector(embd),
            Self::MtpHnorm | Self::MtpHeadNorm => Shape::Vector(wide),
            Self::MtpEhProj => Shape::Matrix(2 * embd, embd),
            Self::MtpHeadDown => Shape::Matrix(wide, rank),
            Self::MtpHeadUp => Shape::Matrix(rank, wide),
            Self::MtpEmbedTokens | Self::MtpHeadOut => Shape::Matrix(embd, hp.vocab),
        })
    }
}
