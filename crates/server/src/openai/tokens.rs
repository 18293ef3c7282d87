//! `/tokenize` and `/detokenize`. What they take is limited and what they give is written as it is
//! made: as values, the tokens of a body of 16 MiB would take gigabytes.

use crate::ApiError;
use crate::body;
use crate::fields::Fields;
use crate::routes::Failure;
use crate::service::Service;
use crate::wire;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use model::tokenizer::{SkipSpecial, SpecialTokens, Tokenizer};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// Bytes of a text at most.
const MAX_TEXT: usize = 4 << 20;
/// Ids at most.
const MAX_IDS: usize = 1 << 20;

/// `POST /tokenize`: `{"content": TEXT, "parse_special": BOOL}` to `{"tokens": [...]}`.
pub(crate) async fn tokenize(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let mut fields = body::fields(request, &service).await?;
    let text = text_of(&mut fields)?;
    let special = match fields.boolean("parse_special")?.unwrap_or(true) {
        true => SpecialTokens::Parse,
        false => SpecialTokens::AsText,
    };
    let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    fields.ignore(&["model", "add_special"]);
    fields.finish()?;
    let work = move |service: &Service| {
        let tokenizer = &service.model.tokenizer;
        let tokens = tokenizer.encode(&text, special);
        let tokens = tokens.map_err(|error| ApiError::field("content", error.to_string()))?;
        Ok(written(&tokens, with_pieces.then_some(tokenizer)))
    };
    Ok(wire::json_text(StatusCode::OK, service.compute(work).await?))
}

/// The answer to `/tokenize`, with what each token stands for where `pieces` can tell.
fn written(tokens: &[u32], pieces: Option<&Tokenizer>) -> String {
    let mut out = String::from("{\"tokens\":[");
    for (number, id) in tokens.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = match pieces {
            None => write!(out, "{comma}{id}"),
            Some(tokenizer) => {
                let piece = Value::from(tokenizer.piece(*id));
                write!(out, "{comma}{{\"id\":{id},\"piece\":{piece}}}")
            }
        };
    }
    let _ = write!(out, "],\"count\":{}}}", tokens.len());
    out
}

fn text_of(fields: &mut Fields) -> Result<String, ApiError> {
    for name in ["content", "prompt"] {
        match fields.text(name)? {
            Some(text) if text.len() > MAX_TEXT => {
                let len = text.len();
                let message = format!("{name} has {len} bytes, at most {MAX_TEXT} may be");
                return Err(ApiError::field(name, message));
            }
            Some(text) => return Ok(text),
            None => {}
        }
    }
    Err(ApiError::field("content", "the field content is missing"))
}

/// `POST /detokenize`: `{"tokens": [...]}` to `{"content": TEXT}`.
pub(crate) async fn detokenize(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let mut fields = body::fields(request, &service).await?;
    let tokens = fields.array("tokens")?;
    let tokens = tokens.ok_or_else(|| ApiError::field("tokens", "the field tokens is missing"))?;
    fields.ignore(&["model"]);
    fields.finish()?;
    if tokens.len() > MAX_IDS {
        let message = format!("tokens has {} ids, at most {MAX_IDS} may be", tokens.len());
        return Err(ApiError::field("tokens", message).into());
    }
    let work = move |service: &Service| {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids: Option<Vec<u32>> = tokens.iter().map(id).collect();
        let ids = ids.ok_or_else(|| ApiError::field("tokens", "tokens must be an array of ids"))?;
        let text = service.model.tokenizer.decode_text(&ids, SkipSpecial::No);
        let text = text.map_err(|error| ApiError::field("tokens", error.to_string()))?;
        Ok(json!({"content": text}))
    };
    Ok(wire::json(StatusCode::OK, &service.compute(work).await?))
}
