//! Anthropic's shapes: messages, the count of their tokens, models, errors.

mod messages;
mod reply;
mod request;
mod tools;

use crate::ApiError;
use crate::body;
use crate::error::ErrorKind;
use crate::prepare::render;
use crate::request::{Generate, Prompt};
use crate::routes::Failure;
use crate::served::ServedModel;
use crate::service::{Service, unique};
use crate::wire;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use request::Delivery;
use serde_json::{Value, json};
use std::sync::Arc;

/// `POST /v1/messages`.
pub(crate) async fn messages(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service).await?;
    let read = request::read(fields, &service)?;
    let id = unique();
    let reply = reply::Reply::new(&id, &service.model.name, read.thoughts);
    Ok(match read.delivery {
        Delivery::Whole => wire::whole(&service, read.generate, (&id, reply)).await?,
        Delivery::Stream => wire::stream(&service, read.generate, (&id, reply)).await?,
    })
}

/// `POST /v1/messages/count_tokens`: takes what `/v1/messages` takes and generates nothing.
pub(crate) async fn count_tokens(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service).await?;
    let Generate { prompt, .. } = request::read(fields, &service)?.generate;
    let count = move |service: &Service| match &prompt {
        Prompt::Chat(chat) => Ok(render(&service.model, chat)?.len()),
        Prompt::Text(_) | Prompt::Tokens(_) => {
            Err(ApiError::new(ErrorKind::Internal, "a conversation was read as a text"))
        }
    };
    let tokens = service.compute(count).await?;
    Ok(wire::json(StatusCode::OK, &json!({"input_tokens": tokens})))
}

/// The list of models.
pub(crate) fn models(service: &Service) -> Value {
    let name = &service.model.name;
    json!({"data": [model(service)], "first_id": name, "last_id": name, "has_more": false})
}

/// The model.
pub(crate) fn model(service: &Service) -> Value {
    let ServedModel { name, created, .. } = &service.model;
    json!({
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": date(*created),
        "lifecycle": "active",
        "max_input_tokens": service.context,
        "max_tokens": service.context,
    })
}

/// Seconds since 1970 as a date in UTC.
fn date(seconds: u64) -> String {
    // Days are counted from March of the year 0, so that leap days come last; 400 years have
    // 146097 days.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, year) = (day - (153 * month + 2) / 5 + 1, era * 400 + year + u64::from(month >= 10));
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// An error in Anthropic's shape.
pub(crate) fn error(error: &ApiError) -> Value {
    let name = match error.kind {
        ErrorKind::Unauthorized => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::Timeout => "timeout_error",
        ErrorKind::BodyTooLarge => "request_too_large",
        ErrorKind::Busy { .. } => "rate_limit_error",
        ErrorKind::Internal => "api_error",
        ErrorKind::Unavailable => "overloaded_error",
        ErrorKind::Invalid | ErrorKind::TooLong { .. } | ErrorKind::Method => {
            "invalid_request_error"
        }
    };
    let mut body = json!({"type": name, "message": error.message});
    if let ErrorKind::TooLong { tokens, limit } = error.kind {
        // Agents look for these words to know when to shorten a conversation.
        let message = format!("prompt is too long: {tokens} tokens > {limit} maximum");
        body["message"] = message.into();
        body["n_prompt_tokens"] = tokens.into();
        body["n_ctx"] = limit.into();
    }
    if let Some(param) = &error.param {
        body["param"] = param.as_str().into();
    }
    json!({"type": "error", "error": body})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
