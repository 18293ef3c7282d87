//! The option that names the model.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::model_file::ModelFile;

/// Which model.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArg {
    /// Model: a GGUF file, any part of a split one, a folder that holds one, or OWNER/REPO[:QUANT]
    /// as fetched with `tuff pull`. [default: what TUFF_MODEL names, otherwise the sample model]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelArg {
    /// Opens the model.
    ///
    /// # Errors
    /// [`Error::NoModel`], [`Error::Gguf`].
    pub(crate) fn open(&self) -> Result<ModelFile, Error> {
        ModelFile::open(self.model.as_deref())
    }
}
