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

/// What drafts are made with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drafts")]
pub(crate) struct BlockArgs {
    /// Drafting block in a file of its own; used in place of one in the model's file.
    #[arg(long, value_name = "FILE")]
    mtp: Option<PathBuf>,
    /// Over what the drafting block normalises its input.
    #[arg(long, value_enum, value_name = "EXTENT", default_value = "whole")]
    mtp_hnorm: HnormArg,
    /// Draft only tokens of this list, made by `tuff draft-vocab build`: faster drafts.
    #[arg(long, value_name = "FILE")]
    draft_vocab: Option<PathBuf>,
}

impl BlockArgs {
    /// Whether one of the files was given.
    pub(crate) fn names_a_file(&self) -> bool {
        self.mtp.is_some() || self.draft_vocab.is_some()
    }
}

/// How tokens are drafted. The text is the same whatever is set here.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drafts")]
pub(crate) struct SpecArgs {
    /// Who drafts tokens that the model then checks together: off, mtp (the model's drafting
    /// block), lookup (earlier text), mtp+lookup, each also with a number of drafts as in mtp:3, or
    /// adaptive (what pays here). Changes speed, never a result.
    #[arg(long, value_name = "MODE", default_value_t = SpecMode::Adaptive)]
    spec: SpecMode,
    #[command(flatten)]
    block: BlockArgs,
}

impl SpecArgs {
    /// What is to be loaded.
    pub(crate) fn drafting(&self) -> Drafting<'_> {
        Drafting { modes: std::slice::from_ref(&self.spec), block: &self.block }
    }

    /// Who drafts.
    pub(crate) fn mode(&self) -> SpecMode {
        self.spec
    }
}

/// What a model is loaded for: modes, and what they draft with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drafting<'a> {
    /// All modes that will be used.
    pub(crate) modes: &'a [SpecMode],
    /// What they draft with.
    pub(crate) block: &'a BlockArgs,
}

impl<'a> Drafting<'a> {
    /// Adds to the sizes of an engine what drafts need.
    pub(crate) fn extend(&self, config: EngineConfig) -> EngineConfig {
        let any = self.modes.iter().any(|mode| *mode != SpecMode::Off);
        // A window of the drawn token and its drafts.
        let deferred = if any { (MAX_DEPTH + 1).min(config.chunk) } else { 0 };
        if deferred == 1 {
            tracing::warn!("--chunk 1 leaves no room for drafts: each token is computed alone");
        }
        let extent = match self.block.mtp_hnorm {
            HnormArg::Whole => NormExtent::Whole,
            HnormArg::PerStream => NormExtent::PerStream,
        };
        let mtp = self.uses_block().then_some(extent);
        EngineConfig { deferred, mtp, ..config }
    }

    /// Whether the drafting block can be of use.
    pub(crate) fn uses_block(&self) -> bool {
        self.modes.iter().any(|mode| uses_block(*mode))
    }

    /// Whether there must be a drafting block.
    pub(crate) fn wants_block(&self) -> bool {
        let mode = self.modes.iter().any(|mode| wants_block(*mode));
        mode || self.block.draft_vocab.is_some() && self.uses_block()
    }

    /// The drafting block's own file.
    pub(crate) fn block_file(&self) -> Option<&'a Path> {
        self.block.mtp.as_deref().filter(|_| self.uses_block())
    }

    /// The list of tokens to draft.
    pub(crate) fn draft_vocab(&self) -> Option<&'a Path> {
        self.block.draft_vocab.as_deref().filter(|_| self.uses_block())
    }
}

/// Whether a mode can use the drafting block.
pub(crate) fn uses_block(mode: SpecMode) -> bool {
    !matches!(mode, SpecMode::Off | SpecMode::Lookup { .. })
}

/// Whether a mode is nothing without the drafting block.
pub(crate) fn wants_block(mode: SpecMode) -> bool {
    matches!(mode, SpecMode::Mtp { .. } | SpecMode::MtpLookup { .. })
}
