//! Fields that chat and completion requests share.

use crate::ApiError;
use crate::config::RequestLimits;
use crate::error::ErrorKind;
use crate::fields::{Fields, wrong_kind};
use crate::output::FinishReason;
use crate::service::{Service, random_seed};
use engine::SamplingParams;
use serde_json::{Map, Value, json};

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

/// The settings of the sampler: those of the request, otherwise the model's.
pub(super) fn sampling(fields: &mut Fields, service: &Service) -> Result<SamplingParams, ApiError> {
    let default = service.model.sampling.clone();
    let mut number =
        |name, default: f32| Ok::<f32, ApiError>(fields.number(name)?.unwrap_or(default));
    let mut params = SamplingParams {
        temperature: number("temperature", default.temperature)?,
        top_p: number("top_p", default.top_p)?,
        min_p: number("min_p", default.min_p)?,
        repetition_penalty: number("repetition_penalty", default.repetition_penalty)?,
        presence_penalty: number("presence_penalty", default.presence_penalty)?,
        frequency_penalty: number("frequency_penalty", default.frequency_penalty)?,
        ..default
    };
    if let Some(top_k) = fields.integer("top_k")? {
        let count = match top_k {
            -1 => Some(0),
            top_k => usize::try_from(top_k).ok(),
        };
        params.top_k = count.ok_or_else(|| {
            ApiError::field("top_k", format!("top_k is {top_k}; use 0 or -1 to switch it off"))
        })?;
    }
    params.seed = fields.integer("seed")?.map_or_else(random_seed, i64::cast_unsigned);
    if let Some(biases) = fields.object("logit_bias")? {
        params.logit_bias = logit_bias(&biases, &service.limits)?;
    }
    // The vocabulary of the tokenizer; the engine checks again with its own.
    params.validate(service.model.tokenizer.vocab_size())?;
    Ok(params)
}

fn logit_bias(
    biases: &Map<String, Value>,
    limits: &RequestLimits,
) -> Result<Vec<(u32, f32)>, ApiError> {
    let most = limits.biases;
    if biases.len() > most {
        let message = format!("logit_bias names {} tokens, at most {most} may be", biases.len());
        return Err(ApiError::field("logit_bias", message));
    }
    let one = |(token, value): (&String, &Value)| {
        let bias = value.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
        match (token.parse::<u32>(), bias) {
            (Ok(token), Some(bias)) => Ok((token, bias as f32)),
            _ => {
                let message = "logit_bias must map token ids to numbers from -100 to 100";
                Err(ApiError::field("logit_bias", message))
            }
        }
    };
    biases.iter().map(one).collect()
}

/// Stop strings: one or several.
pub(super) fn stop(fields: &mut Fields, limits: &RequestLimits) -> Result<Vec<String>, ApiError> {
    let items = match fields.value("stop") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(one) => vec![one],
    };
    if items.len() > limits.stops {
        let message = format!("stop has {} strings, at most {} may be", items.len(), limits.stops);
        return Err(ApiError::field("stop", message));
    }
    let one = |value: Value| match value {
        Value::String(text) if text.len() <= limits.stop_bytes => Ok(text),
        Value::String(text) => {
            let (len, most) = (text.len(), limits.stop_bytes);
            let message = format!("a stop string has {len} bytes, at most {most} may be");
            Err(ApiError::field("stop", message))
        }
        other => Err(wrong_kind("stop", "a string or an array of strings", &other)),
    };
    items.into_iter().map(one).collect()
}

/// Answers to one request.
pub(super) fn choices(fields: &mut Fields, limits: &RequestLimits) -> Result<usize, ApiError> {
    match fields.count("n", limits.choices)? {
        Some(0) => Err(ApiError::field("n", "n is 0; it must be at least 1")),
        found => Ok(found.unwrap_or(1)),
    }
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

/// The name that the model is called by.
pub(super) fn model(fields: &mut Fields, service: &Service) -> Result<(), ApiError> {
    let name = fields.text("model")?;
    name.map_or(Ok(()), |name| service.model.check_name(&name))
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
