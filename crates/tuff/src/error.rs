//! What can go wrong, with the exit code and the one line that the user sees.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::speculation::SpecMode;
use model::chat::TemplateError;
use model::tokenizer::TokenizerError;

/// Faulty tensors named in the one line; `tuff inspect` lists all.
const TENSORS_SHOWN: usize = 3;

/// Anything that ends the program early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file that is no model could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    File {
        /// What was tried, as in "cannot ... PATH".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Standard output does not take more.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// No model was named and the sample model is not there.
    #[error(
        "no model: name one with -m FILE or the environment variable TUFF_MODEL (the sample model \
         {} was not found in or above {}, nor beside the program)",
        .sample.display(),
        .folder.display()
    )]
    NoModel {
        /// Where the sample model would be, from the project's folder.
        sample: &'static Path,
        /// The folder that the search began in.
        folder: PathBuf,
    },
    /// The container is wrong, or cannot be read.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// The file is no model that can be run.
    #[error("{}: {}", .path.display(), describe(.source))]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: model::Error,
    },
    /// The file cannot be used for what was asked.
    #[error("{}: {reason}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Loading or running failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A model file could not be made.
    #[error(transparent)]
    Transform(#[from] lab::transform::Error),
    /// A folder could not be made a model file.
    #[error(transparent)]
    Convert(#[from] lab::convert::Error),
    /// A model of the hub cannot be had.
    #[error(transparent)]
    Hub(#[from] hub::Error),
    /// The server cannot start.
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    /// Text or ids cannot be converted.
    #[error(transparent)]
    Tokenizer(TokenizerError),
    /// A conversation cannot be rendered.
    #[error("the chat template refuses the conversation: {0}")]
    Template(TemplateError),
    /// Drafts changed a text, which they never may.
    #[error(
        "drafts changed the text {name:?}: token {at} is another one with {mode} than with \
         {reference}; this is a fault of tuff, please report it with the model and these settings"
    )]
    TextChanged {
        /// What the text is called.
        name: String,
        /// The draft mode that wrote it.
        mode: SpecMode,
        /// The mode that wrote another text before.
        reference: SpecMode,
        /// The first token that differs, from 1.
        at: usize,
    },
    /// Kernels that are not what the reference is.
    #[error(
        "{misses} of {checks} checks missed, the first: {first}; this is a fault of tuff, please \
         report it with the processor and these lines"
    )]
    Parity {
        /// Cases and tiles that missed.
        misses: usize,
        /// Cases and tiles that were checked.
        checks: usize,
        /// The first of them.
        first: String,
    },
    /// The input is not usable: what, where, and what to do.
    #[error("{0}")]
    Refused(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An [`Error::File`], for use with `map_err`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::File { action, path: path.to_owned(), source }
    }

    /// What the model crate says about a file.
    pub(crate) fn model(path: &Path, source: model::Error) -> Error {
        match source {
            model::Error::Gguf(source) => Error::Gguf(source),
            source => Error::Model { path: path.to_owned(), source },
        }
    }

    /// Prints the error as one line and gives the exit code. A closed pipe is not an error: the
    /// reader has had enough.
    pub(crate) fn report(&self) -> ExitCode {
        if let Error::Output(source) = self
            && source.kind() == io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        if !matches!(self, Error::Interrupted | Error::Hub(hub::Error::Interrupted)) {
            let _ = writeln!(io::stderr(), "tuff: {}", one_line(&self.to_string()));
        }
        ExitCode::from(self.exit_code())
    }

    /// The exit code, as documented in `tuff --help`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::File { .. } | Error::Output(_) | Error::Input(_) | Error::NoModel { .. } => 1,
            Error::TextChanged { .. } | Error::Parity { .. } => 1,
            Error::Gguf(source) => gguf_exit_code(source),
            Error::Hub(hub::Error::Interrupted) => 130,
            Error::Hub(hub::Error::Name { .. } | hub::Error::Choice { .. }) => 4,
            Error::Hub(_) => 1,
            Error::Serve(server::ServeError::PublicWithoutKey { .. }) => 4,
            Error::Serve(_) => 1,
            Error::Model { .. } | Error::Unusable { .. } => 3,
            Error::Engine(source) => engine_exit_code(source),
            Error::Transform(source) => transform_exit_code(source),
            Error::Convert(lab::convert::Error::Transform(source)) => transform_exit_code(source),
            Error::Convert(lab::convert::Error::Read { .. }) => 1,
            Error::Convert(_) => 3,
            Error::Tokenizer(_) | Error::Template(_) | Error::Refused(_) => 4,
            Error::Interrupted => 130,
        }
    }
}

/// A path that leads to no model is an ordinary failure; a bad file is unusable.
fn gguf_exit_code(error: &gguf::Error) -> u8 {
    match error {
        gguf::Error::Io { .. }
        | gguf::Error::NotAFile { .. }
        | gguf::Error::NoModel { .. }
        | gguf::Error::ManyModels { .. } => 1,
        _ => 3,
    }
}

/// Files and disks fail; what cannot be made from this input is refused.
fn transform_exit_code(error: &lab::transform::Error) -> u8 {
    use lab::imatrix::ImatrixError;
    use lab::transform::Error;
    match error {
        Error::Gguf(source) => gguf_exit_code(source),
        Error::Imatrix(ImatrixError::Gguf(source)) => gguf_exit_code(source),
        Error::Io { .. }
        | Error::Imatrix(ImatrixError::Io { .. })
        | Error::Busy { .. }
        | Error::Journal { .. }
        | Error::OtherRun { .. }
        | Error::Unfinished { .. }
        | Error::Space { .. } => 1,
        Error::Imatrix(ImatrixError::Malformed { .. }) => 3,
        _ => 4,
    }
}

fn engine_exit_code(error: &engine::Error) -> u8 {
    match error {
        engine::Error::Kernel(
            kernels::Error::OutOfMemory { .. }
            | kernels::Error::NoDevice { .. }
            | kernels::Error::DeviceLost { .. }
            | kernels::Error::KernelBuild { .. }
            | kernels::Error::DeviceFault { .. }
            | kernels::Error::Storage { .. },
        )
        | engine::Error::Sampling(engine::SamplingError::NonFinite { .. })
        | engine::Error::SlotBroken { .. } => 1,
        engine::Error::Kernel(kernels::Error::KvWidth { .. }) => 4,
        engine::Error::ContextMemory { .. } | engine::Error::MemoryLimit(_) => 1,
        engine::Error::Kernel(_) | engine::Error::NonFiniteWeight { .. } => 3,
        _ => 4,
    }
}

/// The model crate's message, with only the first of many faulty tensors.
fn describe(error: &model::Error) -> String {
    let model::Error::Tensors(model::TensorFaults(faults)) = error else {
        return error.to_string();
    };
    let shown: Vec<String> = faults.iter().take(TENSORS_SHOWN).map(ToString::to_string).collect();
    let more = match faults.len().saturating_sub(TENSORS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let count = faults.len();
    let noun = if count == 1 { "tensor is" } else { "tensors are" };
    format!(
        "{count} {noun} missing or not as the metadata says: {}{more}; fetch or convert the file \
         again (`tuff inspect` shows all of it)",
        shown.join("; ")
    )
}

/// The text on one line, without control characters: messages quote files of strangers.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    let escape = |c: char| match c.is_control() {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    joined.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_one_line_without_control_characters() {
        assert_eq!(one_line("a:\n  b\n\n c"), "a: b; c");
        assert_eq!(one_line("x\u{1b}[31m\u{7}"), "x\\u{1b}[31m\\u{7}");
    }

    #[test]
    fn a_missing_file_is_a_failure_and_a_bad_one_unusable() {
        let missing = gguf::Gguf::open("/nonexistent/model.gguf").unwrap_err();
        assert_eq!(Error::from(missing).exit_code(), 1);
        let bad = gguf::Gguf::from_bytes(b"GGML").unwrap_err();
        assert_eq!(Error::from(bad).exit_code(), 3);
    }
}
