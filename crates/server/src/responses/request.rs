//! `/v1/responses`: the request.

use super::{input, tools};
use crate::ApiError;
use crate::fields::Fields;
use crate::request::{Chat, Effort, Format, Generate, Prompt, Rule};
use crate::service::Service;
use crate::settings;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Fields that change nothing about an answer: names, accounts, and what other servers do.
const HARMLESS: [&str; 9] = [
    "user",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "access_programs",
    "moderation",
];

/// A request as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) generate: Generate,
    pub(super) delivery: Delivery,
    /// What every response object has of the request.
    pub(super) head: Value,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Stream,
}

/// Reads a request.
pub(super) fn read(mut fields: Fields, service: &Service) -> Result<Read, ApiError> {
    settings::model(&mut fields, service)?;
    not_stored(&mut fields)?;
    let limits = &service.limits;
    let delivery = delivery(&mut fields)?;
    let instructions = fields.text("instructions")?;
    let given = fields.required("input")?;
    let messages = input::messages(instructions.as_deref(), given, limits.messages)?;
    let given_tools = fields.array("tools")?.unwrap_or_default();
    let tools = tools::tools(given_tools.clone(), limits.tools)?;
    let given_choice = fields.value("tool_choice");
    let tool_choice = tools::choice(given_choice.clone(), &tools)?;
    let parallel_calls = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let (effort, reasoning) = reasoning(&mut fields)?;
    let (format, given_format) = format(&mut fields)?;
    let max_tokens = fields.count("max_output_tokens", usize::MAX)?;
    let sampling = settings::sampling(&mut fields, service)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let head = json!({
        "object": "response",
        "created_at": now.as_secs(),
        "model": service.model.name,
        "instructions": instructions,
        "max_output_tokens": max_tokens,
        "metadata": fields.object("metadata")?.unwrap_or_default(),
        "parallel_tool_calls": parallel_calls,
        "temperature": as_given(sampling.temperature),
        "top_p": as_given(sampling.top_p),
        "tools": given_tools,
        "tool_choice": given_choice.unwrap_or_else(|| "auto".into()),
        "reasoning": reasoning,
        "text": {"format": given_format},
        "truncation": "disabled",
        "previous_response_id": null,
        "background": false,
        "store": false,
    });
    let variables = Map::new();
    let chat = Chat { messages, tools, tool_choice, parallel_calls, effort, variables };
    let generate = Generate {
        prompt: Prompt::Chat(chat),
        choices: 1,
        max_tokens,
        min_tokens: 0,
        sampling,
        stop: Vec::new(),
        log_probs: None,
        reasoning_budget: fields.count("reasoning_budget", usize::MAX)?,
        loop_tokens: fields.count("repetition_stop", usize::MAX)?,
        format,
        echo: false,
    };
    fields.ignore(&HARMLESS);
    fields.finish()?;
    Ok(Read { generate, delivery, head })
}

/// The number as a client writes it: 0.8 and not 0.800000011920929, which is the same f32.
fn as_given(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Refuses what needs a memory of earlier responses, or another way of answering.
fn not_stored(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["previous_response_id", "conversation"] {
        if fields.value(name).is_some() {
            let message = format!("{name}: responses are not stored here; send the whole input");
            return Err(ApiError::unsupported(name, message));
        }
    }
    if fields.boolean("background")? == Some(true) {
        let message = "background: nothing goes on here once a client is gone";
        return Err(ApiError::unsupported("background", message));
    }
    match fields.text("truncation")?.as_deref() {
        None | Some("disabled") => {}
        Some(_) => {
            let message = "truncation: conversations are not shortened here; use disabled";
            return Err(ApiError::unsupported("truncation", message));
        }
    }
    if fields.count("top_logprobs", 20)?.is_some_and(|count| count > 0) {
        let message = "top_logprobs: use /v1/chat/completions for log-probabilities";
        return Err(ApiError::unsupported("top_logprobs", message));
    }
    // Thoughts are there as text anyway.
    let included = fields.array("include")?.unwrap_or_default();
    if included.iter().any(|what| what != "reasoning.encrypted_content") {
        let message = "include: only reasoning.encrypted_content may be named here";
        return Err(ApiError::unsupported("include", message));
    }
    Ok(())
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    if let Some(options) = fields.value("stream_options") {
        if !stream {
            let message = "stream_options are only for stream: true";
            return Err(ApiError::field("stream_options", message));
        }
        let mut options = Fields::of(options, "stream_options")?;
        options.ignore(&["include_obfuscation"]);
        options.finish()?;
    }
    Ok(if stream { Delivery::Stream } else { Delivery::Whole })
}

/// How long to think, and the field as responses bear it.
fn reasoning(fields: &mut Fields) -> Result<(Option<Effort>, Value), ApiError> {
    const NAME: &str = "reasoning";
    let Some(value) = fields.value(NAME) else {
        return Ok((None, json!({"effort": null, "summary": null})));
    };
    let mut fields = Fields::of(value, NAME)?;
    let given = fields.text("effort")?;
    let effort =
        given.as_deref().map(|name| Effort::named(name, "reasoning.effort")).transpose()?;
    // Thoughts are written out as they are.
    fields.ignore(&["summary", "generate_summary"]);
    fields.finish()?;
    Ok((effort, json!({"effort": given, "summary": null})))
}

/// What the answer must look like, and the field as responses bear it.
fn format(fields: &mut Fields) -> Result<(Format, Value), ApiError> {
    let any = || (Format::Text, json!({"type": "text"}));
    let Some(value) = fields.value("text") else { return Ok(any()) };
    let mut text = Fields::of(value, "text")?;
    text.ignore(&["verbosity"]);
    let format = text.value("format");
    text.finish()?;
    const NAME: &str = "text.format";
    let Some(given) = format else { return Ok(any()) };
    let mut format = Fields::of(given.clone(), NAME)?;
    let kind = format.text("type")?.unwrap_or_default();
    let rule =
        |schema, field: &str| Format::Rule { rule: Rule::Schema(schema), field: field.into() };
    let read = match kind.as_str() {
        "text" => Format::Text,
        "json_object" => rule(json!({"type": "object"}), NAME),
        "json_schema" => {
            format.text("name")?;
            format.text("description")?;
            // Schemas are kept to in any case.
            format.boolean("strict")?;
            let name = format.name("schema");
            rule(format.required("schema")?, &name)
        }
        _ => {
            let message = "text.format.type must be text, json_object or json_schema";
            return Err(ApiError::unsupported("text.format.type", message));
        }
    };
    format.finish()?;
    Ok((read, given))
}
