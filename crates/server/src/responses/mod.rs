//! OpenAI's responses: items in, items out, and events with numbers. Nothing is stored.

mod events;
mod input;
mod items;
mod request;
mod tools;

use crate::body;
use crate::routes::Failure;
use crate::service::{Service, unique};
use crate::wire;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use request::Delivery;
use std::sync::Arc;

/// `POST /v1/responses`.
pub(crate) async fn responses(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let fields = body::fields(request, &service).await?;
    let read = request::read(fields, &service)?;
    let id = unique();
    let reply = events::Reply::new(&id, read.head);
    Ok(match read.delivery {
        Delivery::Whole => wire::whole(&service, read.generate, (&id, reply)).await?,
        Delivery::Stream => wire::stream(&service, read.generate, (&id, reply)).await?,
    })
}
