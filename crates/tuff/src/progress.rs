//! A progress bar on standard error, for work that takes long enough to wonder.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// On a terminal.
    OnTerminal,
    /// Never.
    Never,
}

/// What the numbers of a bar count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes.
    Bytes,
    /// Tokens.
    Tokens,
    /// Runs of a test.
    Runs,
    /// Cases of kernels.
    Cases,
    /// Seconds.
    Seconds,
}

/// A bar that appears once the work has gone on for a while, and disappears with it.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    unit: Unit,
    shown: bool,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts the clock of some work.
    pub(crate) fn new(show: Show, what: &'static str, unit: Unit) -> Progress {
        let shown = show == Show::OnTerminal && io::stderr().is_terminal();
        Progress { what, unit, shown, started: Instant::now(), bar: None }
    }

    /// So much is done.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        if !self.shown || self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar(self.what, self.unit, total));
        bar.set_length(total);
        bar.set_position(done.min(total));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.shown = false;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(what: &'static str, unit: Unit, total: u64) -> ProgressBar {
    let template = match unit {
        Unit::Bytes => "{prefix} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}",
        Unit::Tokens => "{prefix} [{bar:30}] {pos}/{len} tokens",
        Unit::Runs => "{prefix} [{bar:30}] {pos}/{len} runs",
        Unit::Cases => "{prefix} [{bar:30}] {pos}/{len} cases",
        Unit::Seconds => "{prefix} [{bar:30}] {pos}/{len} seconds",
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    let bar = ProgressBar::new(total).with_style(style);
    bar.set_prefix(what);
    bar
}
