//! `/v1/completions`: the request.

use super::common::{self, Delivery};
use super::format;
use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use crate::request::{Generate, Prompt};
use crate::service::Service;
use crate::settings;
use serde_json::Value;

/// Tokens of an answer where a request says nothing, as OpenAI has it.
const MAX_TOKENS: usize = 16;

/// Reads a request.
pub(super) fn read(
    mut fields: Fields,
    service: &Service,
) -> Result<(Generate, Delivery), ApiError> {
    settings::model(&mut fields, service)?;
    let delivery = common::delivery(&mut fields)?;
    let limits = &service.limits;
    let choices = common::choices(&mut fields, limits)?;
    let max_tokens = fields.count("max_tokens", usize::MAX)?.unwrap_or(MAX_TOKENS);
    let generate = Generate {
        prompt: prompt(fields.required("prompt")?)?,
        choices,
        max_tokens: Some(max_tokens),
        min_tokens: fields.count("min_tokens", service.context)?.unwrap_or(0),
        sampling: settings::sampling(&mut fields, service)?,
        stop: settings::stop(&mut fields, "stop", limits)?,
        log_probs: fields.count("logprobs", limits.log_probs)?,
        reasoning_budget: None,
        loop_tokens: fields.count("repetition_stop", usize::MAX)?,
        format: format::format(&mut fields)?,
        echo: fields.boolean("echo")?.unwrap_or(false),
    };
    if generate.echo && generate.log_probs.is_some() {
        let message = "logprobs of the prompt are not there; use echo or logprobs";
        return Err(ApiError::unsupported("logprobs", message));
    }
    if fields.integer("best_of")?.is_some_and(|best| best != choices as i64) {
        return Err(ApiError::unsupported("best_of", "best_of must be n: every answer is sent"));
    }
    if fields.text("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(ApiError::unsupported("suffix", "text is not filled in between here"));
    }
    common::finish(fields)?;
    Ok((generate, delivery))
}

/// A text or a list of tokens, alone or as the only one of a list.
fn prompt(value: Value) -> Result<Prompt, ApiError> {
    const WANTED: &str = "a string or an array of token ids";
    let items = match value {
        Value::String(text) => return text_prompt(text),
        Value::Array(items) => items,
        other => return Err(wrong_kind("prompt", WANTED, &other)),
    };
    match <[Value; 1]>::try_from(items) {
        Ok([Value::String(text)]) => text_prompt(text),
        Ok([Value::Array(items)]) => tokens(&items),
        Ok(other) => tokens(&other),
        Err(items) if matches!(items.first(), Some(Value::String(_) | Value::Array(_))) => {
            let message = "prompt has several texts; send a request for each";
            Err(ApiError::unsupported("prompt", message))
        }
        Err(items) => tokens(&items),
    }
}

fn text_prompt(text: String) -> Result<Prompt, ApiError> {
    if text.is_empty() {
        return Err(ApiError::field(
            "prompt",
            "prompt is empty; there must be something to follow",
        ));
    }
    Ok(Prompt::Text(text))
}

fn tokens(items: &[Value]) -> Result<Prompt, ApiError> {
    if items.is_empty() {
        return text_prompt(String::new());
    }
    let token = |item: &Value| {
        let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong_kind("prompt", "a string or an array of token ids", item))
    };
    Ok(Prompt::Tokens(items.iter().map(token).collect::<Result<_, _>>()?))
}
