//! OpenAI's shapes: chat completions, completions, models.

mod chat_reply;
mod chat_request;
mod common;
mod completion_reply;
mod completion_request;
mod format;
mod messages;
mod tokens;
mod tools;

pub(crate) use common::error;
pub(crate) use tokens::{detokenize, tokenize};

use crate::ApiError;
use crate::anthropic;
use crate::body;
use crate::error::ErrorKind;
use crate::request::Generate;
use crate::routes::{Dialect, Failure};
use crate::service::{Service, unique};
use crate::wire::{self, Wire};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
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

    /// An event of a stream that tells what it took, but only at its end.
    fn event(&self, object: &str, choice: Value, tell_usage: bool) -> Value {
        let mut event = self.json(object, &[choice]);
        if tell_usage {
            event["usage"] = Value::Null;
        }
        event
    }
}

/// `POST /v1/chat/completions`.
pub(crate) async fn chat(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service).await?;
    let read = chat_request::read(fields, &service)?;
    answer(&service, "chatcmpl", read, chat_reply::Reply::new).await
}

/// `POST /v1/completions`.
pub(crate) async fn completion(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service).await?;
    let read = completion_request::read(fields, &service)?;
    answer(&service, "cmpl", read, completion_reply::Reply::new).await
}

/// Answers as it was asked to, in a wire format that `reply` makes; its ids begin with `prefix`.
async fn answer<W: Wire>(
    service: &Arc<Service>,
    prefix: &str,
    (generate, delivery): (Generate, Delivery),
    reply: impl Fn(Head, bool, &Generate) -> W,
) -> Result<Response, Failure> {
    let id = unique();
    let head = Head::new(prefix, &id, service);
    Ok(match delivery {
        Delivery::Whole => {
            let reply = reply(head, false, &generate);
            wire::whole(service, generate, (&id, reply)).await?
        }
        Delivery::Stream { usage } => {
            let reply = reply(head, usage, &generate);
            wire::stream(service, generate, (&id, reply)).await?
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
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let name = name.map_err(|error| {
        let message = format!("the path names no model: {}", error.body_text());
        ApiError::field("model", message)
    })?;
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

/// `GET /health`.
pub(crate) async fn health(State(service): State<Arc<Service>>) -> Result<Response, Failure> {
    match service.worker.is_alive() {
        true => Ok(wire::json(StatusCode::OK, &json!({"status": "ok"}))),
        false => Err(ApiError::new(ErrorKind::Unavailable, "the engine has stopped").into()),
    }
}

/// `GET /v1/status`.
pub(crate) async fn status(State(service): State<Arc<Service>>) -> Response {
    let mut status = service.worker.status().json(&service.surroundings());
    status["model"] = model_json(&service);
    status["http"] = service.metrics.http();
    status["uptime_seconds"] = service.started.elapsed().as_secs().into();
    wire::json(StatusCode::OK, &status)
}
