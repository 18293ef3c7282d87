//! `tuff bench --spec`: the same texts written with different draft modes, and how fast.
//!
//! `prompts` is what the texts begin with, `plan` what is written, `measure` writes it and makes
//! sure that no mode changes a token; `figures` are drawn from that, `text` and `json` write them
//! down.

mod figures;
mod json;
mod measure;
mod plan;
mod prompts;
mod text;

use std::path::PathBuf;

use clap::{Args, value_parser};
use engine::speculation::SpecMode;
use model::sizes::MAX_CONTEXT;

use crate::args::{BlockArgs, Drafting};
use crate::error::Error;

pub(super) use json::report as json_report;
pub(super) use measure::{Results, measure};
pub(super) use plan::SpecPlan;
pub(super) use text::report as text_report;

/// The modes of `--spec` without a list.
const USUAL_MODES: &str = "off,mtp:1,mtp:2,mtp:3,lookup,adaptive";

/// Drafts that are to be compared.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drafts")]
pub(crate) struct DraftArgs {
    /// Write texts with each of these draft modes in turn, compare their speed, and check that the
    /// text is always the same; without a list: off,mtp:1,mtp:2,mtp:3,lookup,adaptive. The other
    /// tests are then run only if they are asked for.
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    #[arg(num_args = 0..=1, default_missing_value = USUAL_MODES)]
    spec: Vec<SpecMode>,
    /// What a text begins with; can be given several times. [default: three beginnings, after which
    /// drafts are easy, mixed and hard for the sample model]
    #[arg(long, value_name = "TEXT", requires = "texts", allow_hyphen_values = true)]
    spec_prompt: Vec<String>,
    /// File that a text begins with; can be given several times.
    #[arg(long, value_name = "FILE", requires = "texts")]
    spec_file: Vec<PathBuf>,
    /// Tokens of each text.
    #[arg(long, value_name = "TOKENS", requires = "texts", default_value = "256")]
    #[arg(value_parser = value_parser!(u64).range(2..=MAX_CONTEXT as u64))]
    spec_tokens: u64,
    /// Randomness of the texts: 0 always takes the likeliest token.
    #[arg(long, value_name = "T", requires = "texts", default_value_t = 0.0)]
    #[arg(allow_negative_numbers = true)]
    spec_temperature: f32,
    #[command(flatten)]
    block: BlockArgs,
}

impl DraftArgs {
    /// Whether drafts are compared.
    pub(super) fn is_wanted(&self) -> bool {
        !self.spec.is_empty()
    }

    /// The same for whole requests, where drafts are compared with none unless modes are given.
    pub(super) fn for_requests(&self) -> DraftArgs {
        let usual = || vec![SpecMode::Off, SpecMode::Adaptive];
        let spec = if self.spec.is_empty() { usual() } else { self.spec.clone() };
        DraftArgs { spec, ..self.clone() }
    }

    /// What the model is to be loaded for.
    pub(super) fn drafting(&self) -> Drafting<'_> {
        Drafting { modes: &self.spec, block: &self.block }
    }

    /// That nothing is set that needs `--spec`, if that is not there.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.block.names_a_file() && !self.is_wanted() {
            let advice = "--mtp and --draft-vocab are for comparing drafts: add --spec";
            return Err(Error::Refused(advice.to_owned()));
        }
        Ok(())
    }
}
