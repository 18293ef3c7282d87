//! Diagnostics on standard error: warnings, and with -v or TUFF_LOG more.

use std::io;

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "TUFF_LOG";

/// Starts logging: warnings unless quiet, with one -v information, with two the details. A filter
/// in TUFF_LOG (such as `debug`) takes precedence.
pub(crate) fn start(verbose: u8, quiet: bool) {
    let level = match verbose {
        0 if quiet => "off",
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(level));
    let colour = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .without_time()
        .with_target(false)
        .try_init();
}
