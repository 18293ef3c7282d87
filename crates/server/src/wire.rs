//! From events to a client: the seam that every wire format implements, and the two ways of
//! sending, both of which see the same events.

use crate::ApiError;
use crate::outbox::Inbox;
use crate::output::{Output, Whole};
use crate::request::Generate;
use crate::service::{Service, Started};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::Value;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time between signs of life while nothing else is sent: proxies close what is silent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How a client wants answers written.
pub(crate) trait Wire: Send + Unpin + 'static {
    /// All answers as one document.
    fn whole(&self, answers: Vec<Whole>) -> Value;

    /// What a stream begins with, behind a prompt of so many tokens.
    fn begin(&mut self, prompt_tokens: usize, frames: &mut Frames);

    /// The next event of an answer; not [`Output::Failed`].
    fn event(&mut self, choice: usize, output: Output, frames: &mut Frames);

    /// What a stream ends with if nothing went wrong.
    fn end(&mut self, frames: &mut Frames);

    /// What a stream ends with if something did.
    fn failed(&mut self, error: &ApiError, frames: &mut Frames);
}

/// Server-sent events in the making.
#[derive(Debug, Default)]
pub(crate) struct Frames(String);

impl Frames {
    /// An event without a name.
    pub(crate) fn data(&mut self, data: &Value) {
        // JSON as it is written here has no line breaks.
        let _ = write!(self.0, "data: {data}\n\n");
    }

    /// An event with the name that is its `type`.
    pub(crate) fn named(&mut self, data: &Value) {
        let name = data["type"].as_str().unwrap_or_default();
        let _ = write!(self.0, "event: {name}\ndata: {data}\n\n");
    }

    /// An event with a word in place of JSON.
    pub(crate) fn word(&mut self, word: &str) {
        let _ = write!(self.0, "data: {word}\n\n");
    }
}

/// Makes answers and sends them.
///
/// # Errors
/// Whatever is known before the first byte is sent.
pub(crate) async fn whole(
    service: &Arc<Service>,
    request: Generate,
    (id, wire): (&str, impl Wire),
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let mut answers = vec![Whole::default(); request.choices];
    let Started { mut inbox, .. } = service.start(request, id).await?;
    let mut first = true;
    while let Some((choice, output)) = inbox.next().await {
        if std::mem::take(&mut first) {
            service.metrics.first_event(started);
        }
        if let Some(answer) = answers.get_mut(choice) {
            answer.take(output)?;
        }
    }
    if answers.iter().any(|answer| answer.finish.is_none()) {
        return Err(ApiError::going_down());
    }
    service.metrics.answered(started);
    Ok(json(StatusCode::OK, &wire.whole(answers)))
}

/// Makes answers and sends them as they come.
///
/// # Errors
/// Whatever is known before the first byte is sent.
pub(crate) async fn stream(
    service: &Arc<Service>,
    request: Generate,
    (id, wire): (&str, impl Wire),
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let answers = request.choices;
    let Started { inbox, prompt_tokens } = service.start(request, id).await?;
    let mut keep_alive = interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let stage = Stage::Begin { prompt_tokens };
    let service = service.clone();
    let events = Events { inbox, wire, stage, answers, keep_alive, service, started };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    json_text(status, value.to_string())
}

/// A JSON response that is written already.
pub(crate) fn json_text(status: StatusCode, text: String) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, text).into_response()
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin { prompt_tokens: usize },
    First,
    Running,
    Ended,
}

/// The body of a streamed response. Its end, however it comes, drops the inbox, which cancels what
/// is not done.
struct Events<W> {
    inbox: Inbox,
    wire: W,
    stage: Stage,
    /// Answers that are not complete.
    answers: usize,
    keep_alive: Interval,
    service: Arc<Service>,
    started: Instant,
}

impl<W: Wire> Events<W> {
    /// Writes all that is there; whether there may be more.
    fn write(&mut self, frames: &mut Frames, context: &mut Context<'_>) {
        if let Stage::Begin { prompt_tokens } = self.stage {
            self.wire.begin(prompt_tokens, frames);
            self.stage = Stage::First;
        }
        while self.stage != Stage::Ended {
            let Poll::Ready(next) = self.inbox.poll(context) else { return };
            if self.stage == Stage::First {
                self.stage = Stage::Running;
                self.service.metrics.first_event(self.started);
            }
            let (choice, output) = match next {
                Some((_, Output::Failed(error))) => return self.fail(&error, frames),
                None => return self.fail(&ApiError::going_down(), frames),
                Some(next) => next,
            };
            self.answers -= usize::from(matches!(output, Output::Finish { .. }));
            self.wire.event(choice, output, frames);
            if self.answers == 0 {
                self.wire.end(frames);
                self.stage = Stage::Ended;
                self.service.metrics.answered(self.started);
            }
        }
    }

    fn fail(&mut self, error: &ApiError, frames: &mut Frames) {
        self.wire.failed(error, frames);
        self.stage = Stage::Ended;
    }
}

impl<W: Wire> Stream for Events<W> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stage == Stage::Ended {
            return Poll::Ready(None);
        }
        let mut frames = Frames::default();
        self.write(&mut frames, context);
        if !frames.0.is_empty() {
            self.keep_alive.reset();
            return Poll::Ready(Some(Ok(Bytes::from(frames.0))));
        }
        match self.keep_alive.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Bytes::from_static(b": still here\n\n")))),
            Poll::Pending => Poll::Pending,
        }
    }
}
