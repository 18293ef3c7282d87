//! What a client is told when something is wrong; each wire format writes it in its own way.

use engine::batch::Refused;
use engine::{Error, SamplingError};
use model::chat::TemplateError;

/// What kind of fault it is; decides the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong: 400.
    Invalid,
    /// The prompt is longer than a request may be: 400.
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that a request may have.
        limit: usize,
    },
    /// No key, or a wrong one: 401.
    Unauthorized,
    /// A page of another site asked: 403.
    Forbidden,
    /// There is no such path or model: 404.
    NotFound,
    /// The path knows other methods: 405.
    Method,
    /// The body did not come in time: 408.
    Timeout,
    /// The body is larger than it may be: 413.
    BodyTooLarge,
    /// Too many requests wait; seconds after which to try again: 429.
    Busy {
        /// Seconds.
        retry_after: u32,
    },
    /// Something failed here: 500.
    Internal,
    /// The server is going down: 503.
    Unavailable,
}

/// A fault, in words and for programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind.
    pub kind: ErrorKind,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// The field that is wrong, if one is.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
}

impl ApiError {
    /// Of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None }
    }

    /// A field that is wrong.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into());
        Self { param, ..Self::new(ErrorKind::Invalid, message) }
    }

    /// A field that would change what the client gets, and that is not done here.
    pub fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self { code: Some("unsupported_parameter"), ..Self::field(param, message) }
    }

    /// The server is going down.
    pub fn going_down() -> Self {
        Self::new(ErrorKind::Unavailable, "the server is shutting down")
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        match self.kind {
            ErrorKind::Invalid | ErrorKind::TooLong { .. } => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::Method => 405,
            ErrorKind::Timeout => 408,
            ErrorKind::BodyTooLarge => 413,
            ErrorKind::Busy { .. } => 429,
            ErrorKind::Internal => 500,
            ErrorKind::Unavailable => 503,
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::QueueFull { .. } => {
                let code = Some("queue_full");
                Self { code, ..Self::new(ErrorKind::Busy { retry_after: 1 }, message) }
            }
            Refused::PromptTooLong { tokens, limit } => Self {
                code: Some("context_length_exceeded"),
                ..Self::new(ErrorKind::TooLong { tokens, limit }, message)
            },
            Refused::Sampling(error) => error.into(),
            Refused::TooMuchMemory { .. } => Self::field("max_tokens", message),
            Refused::NoTokens | Refused::TokenOutOfRange { .. } => Self::field("prompt", message),
        }
    }
}

impl From<SamplingError> for ApiError {
    fn from(error: SamplingError) -> Self {
        let message = error.to_string();
        match error {
            SamplingError::OutOfRange { name, .. } => Self::field(name, message),
            SamplingError::BiasToken { .. } | SamplingError::NothingLeft { .. } => {
                Self::field("logit_bias", message)
            }
            SamplingError::Grammar { .. } => Self::new(ErrorKind::Invalid, message),
            SamplingError::NonFinite { .. } => {
                Self { code: Some("non_finite_logits"), ..Self::new(ErrorKind::Internal, message) }
            }
        }
    }
}

impl ApiError {
    /// Why an answer failed that is held to the rule in the field `ruled_by`, if to any.
    pub(crate) fn of_answer(error: Error, ruled_by: &str) -> Self {
        match error {
            Error::Sampling(error @ SamplingError::Grammar { .. }) => {
                Self::field(ruled_by, format!("{ruled_by}: {error}"))
            }
            Error::Sampling(error) => error.into(),
            other => Self::new(ErrorKind::Internal, other.to_string()),
        }
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        let message = format!("the chat template refuses the conversation: {error}");
        match error {
            TemplateError::NoThread { .. } => Self::new(ErrorKind::Internal, message),
            _ => Self::field("messages", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_fails_is_told_by_its_field() {
        let failed = SamplingError::Grammar { position: 3, what: "too much".to_owned() };
        let error = ApiError::of_answer(Error::Sampling(failed), "guided_regex");
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("guided_regex")));
        assert!(error.message.contains("too much"));
    }
}
