//! The server on a real port, with the sample model. One program for all tests, so that the model
//! is loaded once for most of them.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod chat;
mod common;
mod completions;
mod format;
mod gone;
mod limits;
mod load;
mod messages;
mod non_finite;
mod page;
mod refused;
mod responses;
