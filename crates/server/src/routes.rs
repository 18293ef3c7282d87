//! Which path is what, and what surrounds every request.

use crate::ApiError;
use crate::error::ErrorKind;
use crate::guard;
use crate::openai;
use crate::page;
use crate::service::Service;
use crate::wire;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// A fault on its way to the client, in OpenAI's shape. Formats that have a shape of their own
/// answer their faults themselves.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = wire::json(status, &openai::error(&self.0));
        if let ErrorKind::Busy { retry_after } = self.0.kind {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
        }
        response
    }
}

/// All paths.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let cors = cors(&service.access.origins);
    let router = Router::new()
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/completions", post(openai::completion))
        .route("/v1/models", get(openai::models))
        // Names of models may have slashes.
        .route("/v1/models/{*name}", get(openai::model))
        .route("/tokenize", post(openai::tokenize))
        .route("/detokenize", post(openai::detokenize))
        .route("/health", get(openai::health))
        .route("/v1/status", get(openai::status))
        .route("/metrics", get(metrics))
        .merge(page::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(service.clone(), around))
        .with_state(service);
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

/// What pages of these origins may do.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
        AllowOrigin::list(origins)
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request());
    (!origins.is_empty()).then_some(layer)
}

/// Lets requests in, and counts them.
async fn around(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let let_in = guard::check(&service.access, request.uri().path(), request.headers());
    let response = match let_in {
        Ok(()) => next.run(request).await,
        Err(error) => Failure(error).into_response(),
    };
    let route = route.as_deref().unwrap_or("other");
    service.metrics.request(route, response.status().as_u16());
    response
}

async fn unknown(request: Request) -> Failure {
    let path: String = request.uri().path().chars().take(200).collect();
    Failure(ApiError::new(ErrorKind::NotFound, format!("there is no path {path:?} here")))
}

async fn wrong_method(request: Request) -> Failure {
    let method: String = request.method().as_str().chars().take(20).collect();
    Failure(ApiError::new(
        ErrorKind::Method,
        format!("this path does not know the method {method}"),
    ))
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let text = service.metrics.text(&service.worker.status());
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"))], text)
        .into_response()
}
