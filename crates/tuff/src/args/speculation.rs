//! Options of speculative decoding: who drafts, and how many tokens.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use engine::speculation::{MAX_DEPTH, SpecMode};
use engine::{EngineConfig, NormExtent};

/// How the drafting block normalises its input streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HnormArg {
    /// All streams of a token together.
    Whole,
    /// Each stream by itself.
    PerStream,
}

/// How tokens are drafted. The text is the same whatever is set here.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drafts")]
pub(crate) struct SpecArgs {
    /// Who drafts tokens that the model then checks together: off, mtp (the model's drafting
    /// block), lookup (earlier text), mtp+lookup, each also with a number of drafts as in mtp:3, or
    /// adaptive (what pays here). Changes speed, never a result.
    #[arg(long, value_name = "MODE", default_value_t = SpecMode::Adaptive)]
    pub(crate) spec: SpecMode,
    /// Drafting block in a file of its own; used in place of one in the model's file.
    #[arg(long, value_name = "FILE")]
    pub(crate) mtp: Option<PathBuf>,
    /// Over what the drafting block normalises its input.
    #[arg(long, value_enum, value_name = "EXTENT", default_value = "whole")]
    mtp_hnorm: HnormArg,
    /// Draft only tokens of this list, made by `tuff draft-vocab build`: faster drafts.
    #[arg(long, value_name = "FILE")]
    draft_vocab: Option<PathBuf>,
}

impl SpecArgs {
    /// Adds to the sizes of an engine what drafts need.
    pub(crate) fn extend(&self, config: EngineConfig) -> EngineConfig {
        // A window of the drawn token and its drafts.
        let deferred = if self.spec == SpecMode::Off { 0 } else { MAX_DEPTH + 1 };
        let extent = match self.mtp_hnorm {
            HnormArg::Whole => NormExtent::Whole,
            HnormArg::PerStream => NormExtent::PerStream,
        };
        let deferred = deferred.min(config.chunk);
        let mtp = self.uses_block().then_some(extent);
        EngineConfig { deferred, mtp, ..config }
    }

    /// Whether the drafting block can be of use.
    pub(crate) fn uses_block(&self) -> bool {
        !matches!(self.spec, SpecMode::Off | SpecMode::Lookup { .. })
    }

    /// Whether there must be a drafting block.
    pub(crate) fn wants_block(&self) -> bool {
        let mode = matches!(self.spec, SpecMode::Mtp { .. } | SpecMode::MtpLookup { .. });
        mode || self.draft_vocab.is_some() && self.uses_block()
    }

    /// The list of tokens to draft.
    pub(crate) fn draft_vocab(&self) -> Option<&Path> {
        self.draft_vocab.as_deref().filter(|_| self.uses_block())
    }
}
