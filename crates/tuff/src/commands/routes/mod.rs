//! `tuff routes`: which experts a text uses, layer by layer.
//!
//! The figures are those of `lab::routes`; `text` and `json` write the report, `caches` what
//! `--caches` adds to it.

mod caches;
mod json;
mod text;

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, value_parser};
use lab::FileError;
use lab::routes::caches::CacheFigures;
use lab::routes::{self, Routes, Statistics};

use crate::args::{EngineArgs, ModelArg, TextArgs};
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::{Progress, Show, Unit};
use crate::session::Session;
use crate::{interrupt, terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff routes -f text.txt -o text.routes        record, keep and tell
  tuff routes -f text.txt --tokens 2000 --json  of the first 2,000 tokens, for other programs
  tuff routes --from text.routes                tell again, without the model
  tuff routes --from text.routes --caches       and what caches of experts would have to read

More about the figures and the file: docs/routes.md.";

/// Arguments of `tuff routes`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File to write the choices to.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the choices from such a file in place of running a model.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["output", "text", "prompt", "file", "model", "tokens"])]
    from: Option<PathBuf>,
    /// Tokens of the text at most. [default: all]
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// Tell as well what caches of experts would have to read, under several policies.
    #[arg(long)]
    caches: bool,
    /// Print a JSON object in place of the tables.
    #[arg(long)]
    json: bool,
    /// No progress, no closing line.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Records or reads routes, and reports.
///
/// # Errors
/// An unusable model or text; [`Error::Refused`] for a file that holds no routes;
/// [`Error::File`]; [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let routes = match &args.from {
        Some(path) => read(path)?,
        None => record(args)?,
    };
    if let Some(path) = &args.output {
        write(&routes, path)?;
        if !args.quiet {
            let size = std::fs::metadata(path).map_or(0, |found| found.len());
            terminal::note(&format!("{}: {}", path.display(), units::bytes(size)));
        }
    }
    let statistics = Statistics::of(&routes);
    let caches = args.caches.then(|| CacheFigures::of(&routes));
    if args.json {
        let mut report = json::report(&routes, &statistics);
        if let Some(caches) = &caches {
            report["caches"] = caches::as_json(caches);
        }
        return terminal::print(&format!("{report:#}\n"));
    }
    let caches = caches.as_ref().map(caches::report).unwrap_or_default();
    terminal::print(&(text::report(&routes, &statistics) + &caches))
}

fn record(args: &Args) -> Result<Routes, Error> {
    let file = args.model.open()?;
    let tokenizer = file.tokenizer()?;
    let mut tokens =
        tokenizer.encode(&args.text.read()?, args.text.special()).map_err(Error::Tokenizer)?;
    if let Some(most) = args.tokens {
        tokens.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    let checkpoint = file.checkpoint()?;
    let model_context = checkpoint.hp.context;
    let config = args.engine.config(model_context);
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let mut session = Session::load(&checkpoint, &args.engine.device, config, show)?;
    let settings = args.engine.device.in_words(config.context, model_context);
    let about = format!("{}, {settings}", file.name());

    let _watch = interrupt::watch();
    let mut progress = Progress::new(show, "routing", Unit::Tokens);
    let mut watch = |done| {
        progress.set(done as u64, tokens.len() as u64);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let routes = routes::record(session.router(), &tokens, about, &mut watch)?;
    progress.clear();
    routes.ok_or(Error::Interrupted)
}

fn write(routes: &Routes, path: &Path) -> Result<(), Error> {
    let mut output = OutputFile::create(path)?;
    routes.write(output.writer()).map_err(Error::file("write", path))?;
    output.finish()
}

/// Reads a file of routes.
///
/// # Errors
/// [`Error::File`]; [`Error::Refused`] for a file that holds no routes.
pub(crate) fn read(path: &Path) -> Result<Routes, Error> {
    let file = File::open(path).map_err(Error::file("read", path))?;
    let len = file.metadata().map_err(Error::file("read", path))?.len();
    Routes::read(BufReader::new(file), len).map_err(|error| match error {
        FileError::Io(source) => Error::file("read", path)(source),
        error => Error::Refused(format!("{}: {error}", path.display())),
    })
}
