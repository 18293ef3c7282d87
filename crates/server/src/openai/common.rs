//! Fields that chat and completion requests share.

use crate::ApiError;
use crate::config::RequestLimits;
use crate::error::ErrorKind;
use crate::fields::Fields;
use crate::output::FinishReason;
use serde_json::{Value, json};

/// Fields that change nothing about an answer: names, accounts, and what other servers do.
const HARMLESS: [&str; 9] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "verbosity",
    "cache_prompt",
];

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Stream { usage: bool },
}

/// Answers to one request.
pub(super) fn choices(fields: &mut Fields, limits: &RequestLimits) -> Result<usize, ApiError> {
    let Some(given) = fields.integer("n")? else { return Ok(1) };
    let most = limits.choices;
    let found = usize::try_from(given).ok().filter(|count| (1..=most).contains(count));
    found.ok_or_else(|| ApiError::field("n", format!("n is {given}; it must be from 1 to {most}")))
}

/// Whether an answer is streamed, and how.
pub(super) fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let options = fields.value("stream_options");
    if !stream {
        return match options {
            None => Ok(Delivery::Whole),
            Some(_) => {
                let message = "stream_options are only for stream: true";
                Err(ApiError::field("stream_options", message))
            }
        };
    }
    let Some(options) = options else { return Ok(Delivery::Stream { usage: false }) };
    let mut options = Fields::of(options, "stream_options")?;
    let usage = options.boolean("include_usage")?.unwrap_or(false);
    options.ignore(&["include_obfuscation"]);
    options.finish()?;
    Ok(Delivery::Stream { usage })
}

/// What is the same for all requests, and what does not matter.
pub(super) fn finish(mut fields: Fields) -> Result<(), ApiError> {
    fields.ignore(&HARMLESS);
    fields.finish()
}

/// The word for why an answer ended.
pub(super) fn finish_reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::StopString(_) => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Repetition => "repetition",
    }
}

/// An error in OpenAI's shape.
pub(crate) fn error(error: &ApiError) -> Value {
    let name = match error.kind {
        ErrorKind::TooLong { .. } => "exceed_context_size_error",
        ErrorKind::Unauthorized => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::Busy { .. } => "rate_limit_error",
        ErrorKind::Internal | ErrorKind::Unavailable => "server_error",
        _ => "invalid_request_error",
    };
    let mut body = json!({
        "message": error.message,
        "type": name,
        "param": error.param,
        "code": error.code,
    });
    if let ErrorKind::TooLong { tokens, limit } = error.kind {
        body["n_prompt_tokens"] = tokens.into();
        body["n_ctx"] = limit.into();
    }
    json!({ "error": body })
}
