//! Which path is what, and what surrounds every request.

use crate::ApiError;
use crate::anthropic;
use crate::error::ErrorKind;
use crate::guard;
use crate::openai;
use crate::page;
use crate::responses;
use crate::service::Service;
use crate::wire;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

const OPENAPI: &str = include_str!("openapi.json");

/// A fault on its way to the client; the middleware around all routes writes it as the client
/// expects it.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Whose shapes a client expects where several have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
}

impl Dialect {
    /// By the path, or by the header that clients of Anthropic's send with everything.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Dialect {
        let rest = path.strip_prefix("/v1/messages");
        let is_messages = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match is_messages || headers.contains_key("anthropic-version") {
            true => Dialect::Anthropic,
            false => Dialect::OpenAi,
        }
    }

    fn failure(self, error: &ApiError) -> Response {
        let status = StatusCode::from_u16(error.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match self {
            Dialect::OpenAi => openai::error(error),
            Dialect::Anthropic => anthropic::error(error),
        };
        let mut response = wire::json(status, &body);
        if let ErrorKind::Busy { retry_after } = error.kind {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
        }
        if error.kind == ErrorKind::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// All paths, with the methods that each knows.
fn routes() -> Vec<(&'static str, MethodRouter<Arc<Service>>)> {
    vec![
        ("/v1/chat/completions", post(openai::chat)),
        ("/v1/completions", post(openai::completion)),
        ("/v1/responses", post(responses::responses)),
        ("/v1/messages", post(anthropic::messages)),
        ("/v1/messages/count_tokens", post(anthropic::count_tokens)),
        ("/v1/models", get(openai::models)),
        // Names of models may have slashes.
        ("/v1/models/{*name}", get(openai::model)),
        ("/tokenize", post(openai::tokenize)),
        ("/detokenize", post(openai::detokenize)),
        ("/health", get(openai::health)),
        ("/v1/status", get(openai::status)),
        ("/metrics", get(metrics)),
        ("/openapi.json", get(openapi)),
    ]
}

/// The server as a service.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let cors = cors(&service.access.origins);
    let routes = routes().into_iter();
    let router = routes.fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    let router = router
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
    let dialect = Dialect::of(request.uri().path(), request.headers());
    let mut response = match let_in {
        Ok(()) => next.run(request).await,
        Err(error) => Failure(error).into_response(),
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        let methods = response.headers_mut().remove(header::ALLOW);
        response = dialect.failure(&error);
        response.headers_mut().extend(methods.map(|methods| (header::ALLOW, methods)));
    }
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
    let text = service.metrics.text(&service.worker.status(), &service.surroundings());
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"))], text)
        .into_response()
}

/// The description of all this for programs.
async fn openapi() -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (kind, OPENAPI).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_is_described() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let described: BTreeSet<String> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let served = routes().into_iter().map(|(path, _)| path.replace("{*", "{"));
        assert_eq!(described, served.collect());
    }
}
