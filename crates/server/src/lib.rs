//! HTTP on the engine.
//!
//! The way of a request: a wire format (`openai`, `anthropic`, `responses`) reads it into a
//! [`request::Generate`], which knows of no wire format; `prepare` makes jobs of it; the `worker`
//! thread owns the engine, runs them beside all others and reads their text into
//! [`output::Output`] events; `wire` hands these back to the format, one by one or as a whole. A
//! new wire format is a reader, an implementation of `wire::Wire`, and a route.
#![forbid(unsafe_code)]

mod anthropic;
mod body;
mod config;
mod connections;
mod content;
mod error;
mod fields;
mod functions;
mod grammar;
mod guard;
mod memory;
mod metrics;
mod openai;
mod outbox;
pub mod output;
mod page;
mod patient;
mod prepare;
pub mod request;
mod responses;
mod routes;
mod served;
mod server;
mod service;
mod settings;
mod socket;
mod status;
mod stop;
mod storage;
mod tiers;
mod wire;
mod worker;

pub use config::{Access, Machine, Public, RequestLimits, ServerConfig};
pub use error::{ApiError, ErrorKind};
pub use served::ServedModel;
pub use server::{ServeError, check, serve};
pub use stop::{StopSignal, Stopper, stopper};
