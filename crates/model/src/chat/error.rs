//! Why a template cannot be used, or a conversation cannot be rendered.

use crate::tokenizer::TokenizerError;

/// Longest part of a template engine's message that is passed on, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Why a template cannot be used, or a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are the words and numbers of the messages.
pub enum TemplateError {
    /// The template is absurdly long.
    #[error("the chat template has {len} bytes, more than the limit of {most}")]
    SourceTooLong { len: usize, most: usize },
    /// The template is not valid Jinja.
    #[error("the chat template is not valid, line {line}: {message}")]
    Syntax { line: usize, message: String },
    /// The template refused the conversation with `raise_exception`; these are its words.
    #[error("{message}")]
    Raised { message: String },
    /// An operation of the template failed, most often for a message of unexpected shape.
    #[error("the chat template failed at line {line}: {message}")]
    Failed { line: usize, message: String },
    /// The template did far more work than any conversation of this size needs.
    #[error(
        "the chat template used up its budget of {fuel} steps at line {line}: it loops or builds \
         huge values"
    )]
    OutOfFuel { line: usize, fuel: u64 },
    /// The rendered text, or JSON that the template makes, is too long.
    #[error("the chat template writes more than {most} bytes")]
    OutputTooLong { most: usize },
    /// The thread for the template cannot be started.
    #[error("cannot start a thread with {stack} bytes of stack for the chat template: {source}")]
    NoThread { stack: usize, source: std::io::Error },
    /// The template engine panicked.
    #[error("the template engine failed on this chat template")]
    Crashed,
    /// Every private-use character occurs in the conversation.
    #[error("the conversation uses all private-use characters, none is left to mark tokens with")]
    NoFreeMark,
    /// The rendered text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// The words given to `raise_exception`, carried through the template engine's own error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// The limit on written bytes, carried through the template engine's own error.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes written")]
pub(super) struct WrittenTooMuch(pub(super) usize);

impl TemplateError {
    /// From an error of the template engine; `fuel` is the budget it ran with.
    pub(super) fn from_engine(error: &minijinja::Error, fuel: u64) -> TemplateError {
        let line = error.line().unwrap_or(0);
        if let Some(Raised(message)) = cause(error) {
            return TemplateError::Raised { message: message.clone() };
        }
        if let Some(&WrittenTooMuch(most)) = cause(error) {
            return TemplateError::OutputTooLong { most };
        }
        match error.kind() {
            minijinja::ErrorKind::OutOfFuel => TemplateError::OutOfFuel { line, fuel },
            minijinja::ErrorKind::SyntaxError => {
                TemplateError::Syntax { line, message: describe(error) }
            }
            _ => TemplateError::Failed { line, message: describe(error) },
        }
    }
}

/// The first error of this type among an error and its sources. The type may also be wrapped
/// in an I/O error, which hides what it holds from the chain of sources.
fn cause<T: std::error::Error + 'static>(error: &minijinja::Error) -> Option<&T> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = error.downcast_ref().or_else(|| inside.and_then(|e| e.downcast_ref()));
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

fn describe(error: &minijinja::Error) -> String {
    let detail = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    detail.chars().take(MAX_MESSAGE_CHARS).collect()
}
