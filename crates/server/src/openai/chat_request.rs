//! `/v1/chat/completions`: the request.

use super::common::{self, Delivery};
use super::{format, messages, tools};
use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use crate::request::{Chat, Effort, Generate, Prompt};
use crate::service::Service;
use crate::settings;
use serde_json::{Map, Value};

/// Variables of a template that are not for requests to set.
const OWN_VARIABLES: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

/// Reads a request.
pub(super) fn read(
    mut fields: Fields,
    service: &Service,
) -> Result<(Generate, Delivery), ApiError> {
    settings::model(&mut fields, service)?;
    let delivery = common::delivery(&mut fields)?;
    let limits = &service.limits;
    let choices = common::choices(&mut fields, limits)?;
    let sampling = settings::sampling(&mut fields, service)?;
    let stop = settings::stop(&mut fields, "stop", limits)?;
    let log_probs = log_probs(&mut fields, limits.log_probs)?;
    let max_tokens = fields.count("max_completion_tokens", usize::MAX)?;
    let max_tokens = max_tokens.or(fields.count("max_tokens", usize::MAX)?);
    let generate = Generate {
        choices,
        max_tokens,
        min_tokens: fields.count("min_tokens", service.context)?.unwrap_or(0),
        sampling,
        stop,
        log_probs,
        reasoning_budget: fields.count("reasoning_budget", usize::MAX)?,
        loop_tokens: fields.count("repetition_stop", usize::MAX)?,
        format: format::format(&mut fields)?,
        echo: false,
        prompt: Prompt::Chat(chat(&mut fields, service)?),
    };
    if fields.array("modalities")?.is_some_and(|kinds| kinds != [Value::from("text")]) {
        return Err(ApiError::unsupported("modalities", "only text comes out of this model"));
    }
    common::finish(fields)?;
    Ok((generate, delivery))
}

fn chat(fields: &mut Fields, service: &Service) -> Result<Chat, ApiError> {
    let limits = &service.limits;
    let messages = match fields.required("messages")? {
        Value::Array(values) => messages::messages(values, limits.messages)?,
        other => return Err(wrong_kind("messages", "an array", &other)),
    };
    let tools = tools::tools(fields.array("tools")?.unwrap_or_default(), limits.tools)?;
    let tool_choice = tools::choice(fields.value("tool_choice"), &tools)?;
    Ok(Chat {
        messages,
        tools,
        tool_choice,
        parallel_calls: fields.boolean("parallel_tool_calls")?.unwrap_or(true),
        effort: effort(fields)?,
        variables: variables(fields)?,
    })
}

fn effort(fields: &mut Fields) -> Result<Option<Effort>, ApiError> {
    const NAME: &str = "reasoning_effort";
    fields.text(NAME)?.map(|name| Effort::named(&name, NAME)).transpose()
}

fn variables(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    const NAME: &str = "chat_template_kwargs";
    let variables = fields.object(NAME)?.unwrap_or_default();
    match OWN_VARIABLES.iter().find(|name| variables.contains_key(**name)) {
        Some(own) => {
            let name = format!("{NAME}.{own}");
            let message = format!("{name} is not for requests to set");
            Err(ApiError::field(name, message))
        }
        None => Ok(variables),
    }
}

/// `logprobs` says whether tokens are told, `top_logprobs` how many others in their places.
fn log_probs(fields: &mut Fields, most: usize) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    match fields.count("top_logprobs", most)? {
        Some(_) if !wanted => {
            Err(ApiError::field("top_logprobs", "top_logprobs are only for logprobs: true"))
        }
        top => Ok(wanted.then(|| top.unwrap_or(0))),
    }
}
