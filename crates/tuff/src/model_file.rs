//! Finding and opening the model file, and the parts of it that need no engine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use gguf::Gguf;
use model::Checkpoint;
use model::chat::ChatTemplate;
use model::tokenizer::{Tokenizer, TokenizerError};

use crate::args::Drafting;
use crate::error::Error;
use crate::hub_folder;

/// Where the sample model is in the project's folder.
const SAMPLE: &str = "models/sample/sample.gguf";

/// Names the model for commands without -m.
const VARIABLE: &str = "TUFF_MODEL";

const TEMPLATE_KEY: &str = "tokenizer.chat_template";

/// An opened model file.
#[derive(Debug)]
pub(crate) struct ModelFile {
    /// The path it was opened by.
    pub(crate) path: PathBuf,
    /// Its contents.
    pub(crate) gguf: Gguf,
}

impl ModelFile {
    /// Opens the model of this path; without one, that of TUFF_MODEL or the sample model.
    ///
    /// # Errors
    /// [`Error::NoModel`] if there is none; [`Error::Gguf`] for an unreadable or malformed file.
    pub(crate) fn open(path: Option<&Path>) -> Result<ModelFile, Error> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => default_path()?,
        };
        let path = hub_folder::find(&path)?.unwrap_or(path);
        let gguf = Gguf::open(&path)?;
        tracing::info!("opened {} with {} tensors", path.display(), gguf.tensors().len());
        Ok(ModelFile { path, gguf })
    }

    /// The file's name without folders, for greetings.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// What changes when the file does: for each part its size and the time of its last change,
    /// and a checksum of the chat template.
    pub(crate) fn fingerprint(&self) -> String {
        let part = |path: &PathBuf| {
            let found = fs::metadata(path).ok();
            let changed = found.as_ref().and_then(|found| found.modified().ok());
            let age = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let bytes = found.map_or(0, |found| found.len());
            format!("{bytes}@{}", age.unwrap_or_default().as_nanos())
        };
        let parts: Vec<String> = self.gguf.parts().iter().map(part).collect();
        let template = self.gguf.metadata().get_str(TEMPLATE_KEY).ok().flatten();
        let sum = crc32fast::hash(template.unwrap_or_default().as_bytes());
        format!("{} template {sum:08x}", parts.join(" "))
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// [`Error::Unusable`] or [`Error::Gguf`] if the file has none that works.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, Error> {
        Tokenizer::from_metadata(self.gguf.metadata()).map_err(|error| match error {
            TokenizerError::Metadata(source) => Error::Gguf(source),
            other => self.unusable(other.to_string()),
        })
    }

    /// True if the file has a vocabulary.
    pub(crate) fn has_vocabulary(&self) -> bool {
        self.gguf.metadata().get("tokenizer.ggml.tokens").is_some()
    }

    /// True if the file has a chat template.
    ///
    /// # Errors
    /// [`Error::Gguf`] if it is no text.
    pub(crate) fn has_template(&self) -> Result<bool, Error> {
        Ok(self.gguf.metadata().get_str(TEMPLATE_KEY)?.is_some())
    }

    /// The chat template.
    ///
    /// # Errors
    /// [`Error::Unusable`] or [`Error::Gguf`] if the file has none, or a malformed one.
    pub(crate) fn template(&self) -> Result<ChatTemplate, Error> {
        let Some(source) = self.gguf.metadata().get_str(TEMPLATE_KEY)? else {
            let advice = "the file has no chat template (metadata key tokenizer.chat_template); \
                          it can only continue texts, with `tuff run`";
            return Err(self.unusable(advice.to_owned()));
        };
        ChatTemplate::new(source).map_err(|error| self.unusable(error.to_string()))
    }

    /// The checked model.
    ///
    /// # Errors
    /// [`Error::Model`] or [`Error::Gguf`].
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint, Error> {
        self.check(Checkpoint::load(&self.gguf), &self.path)
    }

    /// The checked model with the drafting block that is asked for.
    ///
    /// # Errors
    /// [`Error::Model`] or [`Error::Gguf`], also for the block's own file; [`Error::Unusable`] if
    /// there is to be a block and there is none.
    pub(crate) fn checkpoint_with(&self, drafting: &Drafting<'_>) -> Result<Checkpoint, Error> {
        let checkpoint = self.checkpoint_for(drafting)?;
        if drafting.wants_block() && checkpoint.mtp.is_none() {
            return Err(self.no_block());
        }
        Ok(checkpoint)
    }

    /// As [`ModelFile::checkpoint_with`], for those who can do without a block.
    ///
    /// # Errors
    /// [`Error::Model`] or [`Error::Gguf`], also for the block's own file.
    pub(crate) fn checkpoint_for(&self, drafting: &Drafting<'_>) -> Result<Checkpoint, Error> {
        match drafting.block_file() {
            Some(path) => {
                let block = Gguf::open(path)?;
                self.check(Checkpoint::load_with_mtp(&self.gguf, &block), path)
            }
            None => self.checkpoint(),
        }
    }

    /// That the model has nothing to draft with.
    pub(crate) fn no_block(&self) -> Error {
        let advice = "the model has no drafting block; name its file with --mtp, or use --spec \
                      lookup or --spec off";
        self.unusable(advice.to_owned())
    }

    fn check(
        &self,
        loaded: Result<Checkpoint, model::Error>,
        path: &Path,
    ) -> Result<Checkpoint, Error> {
        let checkpoint = loaded.map_err(|error| Error::model(path, error))?;
        for warning in checkpoint.warnings() {
            tracing::info!("{warning}");
        }
        Ok(checkpoint)
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Unusable { path: self.path.clone(), reason }
    }
}

fn default_path() -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let folder = env::current_dir().unwrap_or_default();
    let program = env::current_exe().unwrap_or_default();
    let candidates = folder.ancestors().chain(program.ancestors().skip(1));
    let found = candidates.map(|above| above.join(SAMPLE)).find(|path| path.is_file());
    found.ok_or_else(|| Error::NoModel { sample: Path::new(SAMPLE), folder })
}
