//! OpenAI's shapes: chat completions, completions, models.

mod chat_reply;
mod chat_request;
mod common;
mod completion_reply;
mod completion_request;
mod format;
mod messages;
mod tools;

pub(crate) use common::error;

use crate::ApiError;
use crate::anthropic;
use crate::body;
use crate::error::ErrorKind;
use crate::fields::Fields;
use crate::routes::{Dialect, Failure};
use crate::service::{Service, unique};
use crate::wire;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use common::Delivery;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What every part of an answer bears.
#[derive(Clone, Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn new(prefix: &str, unique: &str, service: &Service) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let model = service.model.name.clone();
        Self { id: format!("{prefix}-{unique}"), created: now.as_secs(), model }
    }

    fn json(&self, object: &str, choices: &[Value]) -> Value {
        let Self { id, created, model } = self;
        json!({
            "id": id, "object": object, "created": created, "model": model, "choices": choices,
        })
    }
}


    /// An event of a stream that tells what it took, but only at its end.
    fn event(&self, object: &str, choice: Value, tell_usage: bool) -> Value {
        let mut event = self.json(object, &[choice]);
        if tell_usage {
            event["usage"] = Value::Null;
        }
        event
    }
/// `POST /v1/chat/completions`.
pub(crate) async fn chat(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service.limits).await?;
    let (generate, delivery) = chat_request::read(fields, &service)?;
    let id = unique();
    let head = Head::new("chatcmpl", &id, &service);
    let reply = |usage| chat_reply::Reply::new(head, usage, &generate);
    Ok(match delivery {
        Delivery::Whole => {
            let reply = reply(false);
            wire::whole(&service, generate, (&id, reply)).await?
        }
        Delivery::Stream { usage } => {
            let reply = reply(usage);
            wire::stream(&service, generate, (&id, reply)).await?
        }
    })
}

/// `POST /v1/completions`.
pub(crate) async fn completion(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service.limits).await?;
    let (generate, delivery) = completion_request::read(fields, &service)?;
    let id = unique();
    let head = Head::new("cmpl", &id, &service);
    let reply = |usage| completion_reply::Reply::new(head, usage, &generate);
    Ok(match delivery {
        Delivery::Whole => {
            let reply = reply(false);
            wire::whole(&service, generate, (&id, reply)).await?
        }
        Delivery::Stream { usage } => {
            let reply = reply(usage);
            wire::stream(&service, generate, (&id, reply)).await?
        }
    })
}

/// `GET /v1/models`.
pub(crate) async fn models(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let value = match Dialect::of("/v1/models", &headers) {
        Dialect::OpenAi => json!({"object": "list", "data": [model_json(&service)]}),
        Dialect::Anthropic => anthropic::models(&service),
    };
    wire::json(StatusCode::OK, &value)
}

/// `GET /v1/models/{id}`.
pub(crate) async fn model(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    service.model.check_name(&name)?;
    let value = match Dialect::of("/v1/models", &headers) {
        Dialect::OpenAi => model_json(&service),
        Dialect::Anthropic => anthropic::model(&service),
    };
    Ok(wire::json(StatusCode::OK, &value))
}

fn model_json(service: &Service) -> Value {
    let model = &service.model;
    json!({
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "tuff",
        "aliases": model.aliases,
        "context_length": service.context,
        "vocab_size": model.tokenizer.vocab_size(),
    })
}

/// `POST /tokenize`: `{"content": TEXT, "parse_special": BOOL}` to `{"tokens": [...]}`.
pub(crate) async fn tokenize(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    use model::tokenizer::SpecialTokens::{AsText, Parse};
    let mut fields = body::fields(request, &service.limits).await?;
    let text = text_of(&mut fields)?;
    let special = if fields.boolean("parse_special")?.unwrap_or(true) { Parse } else { AsText };
    let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    fields.ignore(&["model", "add_special"]);
    fields.finish()?;
    let work = move |service: &Service| {
        let tokenizer = &service.model.tokenizer;
        let tokens = tokenizer.encode(&text, special);
        let tokens = tokens.map_err(|error| ApiError::field("content", error.to_string()))?;
        let count = tokens.len();
        let tokens: Vec<Value> = match with_pieces {
            false => tokens.into_iter().map(Value::from).collect(),
            true => {
                let piece = |id| json!({"id": id, "piece": tokenizer.piece(id)});
                tokens.into_iter().map(piece).collect()
            }
        };
        Ok(json!({"tokens": tokens, "count": count}))
    };
    Ok(wire::json(StatusCode::OK, &service.compute(work).await?))
}

fn text_of(fields: &mut Fields) -> Result<String, ApiError> {
    if let Some(text) = fields.text("content")? {
        return Ok(text);
    }
    let text = fields.text("prompt")?;
    text.ok_or_else(|| ApiError::field("content", "the field content is missing"))
}

/// `POST /detokenize`: `{"tokens": [...]}` to `{"content": TEXT}`.
pub(crate) async fn detokenize(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let mut fields = body::fields(request, &service.limits).await?;
    let tokens = fields.array("tokens")?;
    let tokens = tokens.ok_or_else(|| ApiError::field("tokens", "the field tokens is missing"))?;
    fields.ignore(&["model"]);
    fields.finish()?;
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = tokens.iter().map(id).collect();
    let ids = ids.ok_or_else(|| ApiError::field("tokens", "tokens must be an array of ids"))?;
    let skip = model::tokenizer::SkipSpecial::No;
    let text = service.model.tokenizer.decode_text(&ids, skip);
    let text = text.map_err(|error| ApiError::field("tokens", error.to_string()))?;
    Ok(wire::json(StatusCode::OK, &json!({"content": text})))
}

/// `GET /health`.
pub(crate) async fn health(State(service): State<Arc<Service>>) -> Result<Response, Failure> {
    match service.worker.is_alive() {
        true => Ok(wire::json(StatusCode::OK, &json!({"status": "ok"}))),
        false => Err(ApiError::new(ErrorKind::Unavailable, "the engine has stopped").into()),
    }
}

/// `GET /v1/status`.
pub(crate) async fn status(State(service): State<Arc<Service>>) -> Response {
    let mut status = service.worker.status().json();
    status["model"] = model_json(&service);
    status["http"] = service.metrics.http();
    status["uptime_seconds"] = service.started.elapsed().as_secs().into();
    wire::json(StatusCode::OK, &status)
}
