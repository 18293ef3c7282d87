//! The web page at `/`: a chat and a monitor for a browser. Its files are in `web/`, compiled in as
//! they are; a request names one of them or gets nothing.

use crate::ApiError;
use crate::error::ErrorKind;
use crate::routes::Failure;
use crate::service::Service;
use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

/// Name and content of a file.
type File = (&'static str, &'static str);

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../web/", $name)))
    };
}

const INDEX: File = file!("index.html");

const FILES: [File; 25] = [
    file!("api.js"),
    file!("app.js"),
    file!("base.css"),
    file!("blocks.js"),
    file!("chat.css"),
    file!("chat.js"),
    file!("dom.js"),
    file!("format.js"),
    file!("icon.svg"),
    file!("inline.js"),
    file!("markdown.js"),
    file!("message.js"),
    file!("monitor.css"),
    file!("monitor.js"),
    file!("run.js"),
    file!("settings-dialog.js"),
    file!("settings.js"),
    file!("side.js"),
    file!("slots.js"),
    file!("sparkline.js"),
    file!("sse.js"),
    file!("store.js"),
    file!("theme.js"),
    file!("tiers.js"),
    file!("tile.js"),
];

/// Only the server's own files run, and they speak to nobody else; no text can become markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// What goes with every file.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    // The files are those of the server that runs now.
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
];

/// The page's paths.
pub(crate) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/", get(async || response(INDEX))).route("/web/{file}", get(file))
}

/// Whether a path is the page's. Such paths need no key, or nobody could enter one.
pub(crate) fn is_part(path: &str) -> bool {
    path == "/" || path.strip_prefix("/web/").is_some_and(|name| find(name).is_some())
}

fn find(name: &str) -> Option<File> {
    FILES.into_iter().find(|(known, _)| *known == name)
}

async fn file(name: Result<Path<String>, PathRejection>) -> Result<Response, Failure> {
    let missing = || Failure(ApiError::new(ErrorKind::NotFound, "the page has no such file"));
    name.ok().and_then(|name| find(&name)).map(response).ok_or_else(missing)
}

fn response((name, text): File) -> Response {
    let content_type = match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    let mut response = text.into_response();
    let all = HEADERS.into_iter().chain([(header::CONTENT_TYPE, content_type)]);
    let headers = response.headers_mut();
    all.for_each(|(name, value)| drop(headers.insert(name, HeaderValue::from_static(value))));
    response
}
