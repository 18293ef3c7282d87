//! Fields that all wire formats share: the sampler's settings, stop strings, the model's name.

use crate::ApiError;
use crate::config::RequestLimits;
use crate::fields::{Fields, wrong_kind};
use crate::service::{Service, random_seed};
use engine::SamplingParams;
use serde_json::{Map, Value};

/// The settings of the sampler: those of the request, otherwise the model's.
pub(crate) fn sampling(fields: &mut Fields, service: &Service) -> Result<SamplingParams, ApiError> {
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

/// Stop strings in the field `name`: one or several.
pub(crate) fn stop(
    fields: &mut Fields,
    name: &str,
    limits: &RequestLimits,
) -> Result<Vec<String>, ApiError> {
    let items = match fields.value(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(one) => vec![one],
    };
    if items.len() > limits.stops {
        let message =
            format!("{name} has {} strings, at most {} may be", items.len(), limits.stops);
        return Err(ApiError::field(name, message));
    }
    let one = |value: Value| match value {
        Value::String(text) if text.len() <= limits.stop_bytes => Ok(text),
        Value::String(text) => {
            let (len, most) = (text.len(), limits.stop_bytes);
            let message = format!("a stop string has {len} bytes, at most {most} may be");
            Err(ApiError::field(name, message))
        }
        other => Err(wrong_kind(name, "a string or an array of strings", &other)),
    };
    items.into_iter().map(one).collect()
}

/// The name that the model is called by.
pub(crate) fn model(fields: &mut Fields, service: &Service) -> Result<(), ApiError> {
    let name = fields.text("model")?;
    name.map_or(Ok(()), |name| service.model.check_name(&name))
}
