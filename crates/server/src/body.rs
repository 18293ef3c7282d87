//! The body of a request: of limited size, in limited time, and JSON. Few large ones are in memory
//! at a time, with what they are made into.

use crate::ApiError;
use crate::error::ErrorKind;
use crate::fields::Fields;
use crate::service::Service;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{Request, header};
use futures_core::Stream;
use serde_json::Value;
use std::future::poll_fn;
use std::pin::Pin;
use tokio::sync::SemaphorePermit;

/// Bytes of a body that anybody may send at any time.
const SMALL: usize = 1 << 20;

/// Reads the fields of a JSON body.
///
/// # Errors
/// A body that is too large or slow, or no JSON object; with the place where it stops to be one.
pub(crate) async fn fields(request: Request<Body>, service: &Service) -> Result<Fields, ApiError> {
    let limits = &service.limits;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large(limits.body_bytes));
    }
    let reading = read(request.into_body().into_data_stream(), service);
    let (bytes, _permit) = match tokio::time::timeout(limits.body_time, reading).await {
        Ok(read) => read?,
        Err(_) => {
            let message = format!("the body did not come within {:?}", limits.body_time);
            return Err(ApiError::new(ErrorKind::Timeout, message));
        }
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the body is not valid JSON: {error}");
        ApiError { code: Some("invalid_json"), ..ApiError::new(ErrorKind::Invalid, message) }
    })?;
    Fields::of(value, "")
}

/// All of a body, and the right to have it in memory if it is large.
async fn read(
    mut body: BodyDataStream,
    service: &Service,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), ApiError> {
    let most = service.limits.body_bytes;
    let (mut bytes, mut permit) = (Vec::new(), None);
    while let Some(part) = next(&mut body).await? {
        let len = bytes.len() + part.len();
        if len > most {
            return Err(too_large(most));
        }
        if len > SMALL && permit.is_none() {
            let waited = service.large_bodies.acquire().await;
            permit = Some(waited.map_err(|_| ApiError::going_down())?);
        }
        bytes.extend_from_slice(&part);
    }
    Ok((bytes, permit))
}

/// The next part of a body.
async fn next(body: &mut BodyDataStream) -> Result<Option<Bytes>, ApiError> {
    let part = poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await.transpose();
    part.map_err(|error| {
        let message = format!("the body cannot be read: {error}");
        ApiError::new(ErrorKind::Invalid, message)
    })
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body is larger than the {most} bytes that it may have");
    ApiError { code: Some("body_too_large"), ..ApiError::new(ErrorKind::BodyTooLarge, message) }
}
