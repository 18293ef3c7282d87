//! The body of a request: of limited size, in limited time, and JSON.

use crate::ApiError;
use crate::config::RequestLimits;
use crate::error::ErrorKind;
use crate::fields::Fields;
use axum::body::Body;
use axum::http::{Request, header};
use serde_json::Value;

/// Reads the fields of a JSON body.
///
/// # Errors
/// A body that is too large or slow, or no JSON object; with the place where it stops to be one.
pub(crate) async fn fields(
    request: Request<Body>,
    limits: &RequestLimits,
) -> Result<Fields, ApiError> {
    let most = limits.body_bytes;
    let too_large = || {
        let message = format!("the body is larger than the {most} bytes that it may have");
        ApiError { code: Some("body_too_large"), ..ApiError::new(ErrorKind::BodyTooLarge, message) }
    };
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let reading = axum::body::to_bytes(request.into_body(), most);
    let bytes = match tokio::time::timeout(limits.body_time, reading).await {
        Ok(Ok(bytes)) => bytes,
        // Either it is too large or the client is gone and hears nothing anyway.
        Ok(Err(_)) => return Err(too_large()),
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
