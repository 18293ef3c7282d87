//! `tuff kld`: how far a model or setting B is from A, by what both predict on a text.
//!
//! The figures are those of `lab::kld`. `sides` loads A and B; `text` and `json` write the report.

mod json;
mod sides;
mod text;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args as ClapArgs, value_parser};
use engine::store::Counters;
use lab::FileError;
use lab::kld::base::{self, Base, Header};
use lab::kld::{self, Cut, Keep, Report, Score, vocabulary_fingerprint};

use crate::args::{DeviceArgs, ModelArg, OtherDeviceArgs, TextArgs};
use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::session::Session;
use crate::{interrupt, terminal, units};
use sides::{Loaded, Sides};

const EXAMPLES: &str = "\
Examples:
  tuff kld -m f16.gguf --against q4.gguf -f text.txt      what quantising the weights costs
  tuff kld --kv f32 --b-kv q8_0 -f text.txt               what a setting costs
  tuff kld -m f16.gguf -f text.txt --save-base f16.kld    what A predicts, for many B
  tuff kld --base f16.kld -m q4.gguf --json               the same without A at hand

An interrupted --save-base goes on where it was when the same command is given again. More about
the figures and the file: docs/quality.md.";

/// The longest passage that the model crate accepts.
const MAX_CONTEXT: u64 = model::sizes::MAX_CONTEXT as u64;

/// Arguments of `tuff kld`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Model B; without it, the model of -m with other settings.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Tokens of a passage; each starts from an empty state.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    #[arg(value_parser = value_parser!(u64).range(2..=MAX_CONTEXT))]
    ctx: u64,
    /// Tokens at the start of each passage that are not scored. [default: half of --ctx]
    #[arg(long, value_name = "TOKENS")]
    skip: Option<u64>,
    /// Passages at most. [default: as many as the text fills]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    passages: Option<u64>,
    /// Write what A predicts to this file, or go on with it; then compare B with it, if a B is
    /// named.
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    save_base: Option<PathBuf>,
    /// Compare with what A predicted, from this file: text and passages are those it holds. B is
    /// what --against or else -m names.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ctx", "skip", "passages", "tail"])]
    base: Option<PathBuf>,
    /// Probability that --save-base may leave to the tokens that it does not keep one by one, at
    /// each position. The smaller, the larger the file and the closer the bounds.
    #[arg(long, value_name = "P", default_value_t = Keep::default().tail)]
    #[arg(value_parser = parse_tail, requires = "save_base")]
    tail: f64,
    /// Print a JSON object in place of the table.
    #[arg(long)]
    json: bool,
    /// No progress, no notes.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    other: OtherDeviceArgs,
}

impl Args {
    fn show(&self) -> Show {
        if self.quiet { Show::Never } else { Show::OnTerminal }
    }

    fn has_b(&self) -> bool {
        self.against.is_some() || self.other.is_given()
    }

    fn cut(&self) -> Cut {
        // The parsers have limited the values to far less than any usize holds.
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let skip = size(self.skip.unwrap_or(self.ctx / 2));
        Cut { ctx: size(self.ctx), skip, most: self.passages.map(size) }
    }
}

/// A finished comparison, with all that a report says.
struct Outcome {
    a: String,
    b: String,
    /// Tokens of the text that was given; of a base file, of its passages.
    tokens: usize,
    passages: usize,
    cut: Cut,
    /// The base file that was compared with, and what it keeps.
    base: Option<(PathBuf, Keep)>,
    report: Report,
    reads: Reads,
}

/// What was read of experts, of models that do not fit in memory.
struct Reads {
    a: Option<Counters>,
    b: Option<Counters>,
}

impl Reads {
    fn of(a: &Session, b: &Session) -> Self {
        Self { a: a.reads(), b: b.reads() }
    }

    /// With the names of the sides.
    fn sides(&self) -> impl Iterator<Item = (&'static str, &Counters)> {
        let both = [("A", &self.a), ("B", &self.b)];
        both.into_iter().filter_map(|(side, reads)| Some((side, reads.as_ref()?)))
    }
}

/// Compares.
///
/// # Errors
/// An unusable model; [`Error::Refused`] for a text that is too short, models that cannot be
/// compared or a base file of something else; [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let outcome = match (&args.base, &args.save_base) {
        (Some(path), _) => Some(from_base(args, path)?),
        (None, Some(path)) => {
            save_base(args, path)?;
            if args.has_b() { Some(from_base(args, path)?) } else { None }
        }
        (None, None) if !args.has_b() => no_b(),
        (None, None) => Some(side_by_side(args)?),
    };
    match outcome {
        None => Ok(()),
        Some(outcome) if args.json => terminal::print(&format!("{:#}\n", json::report(&outcome))),
        Some(outcome) => terminal::print(&text::report(&outcome)),
    }
}

/// Ends the program as clap does for a missing argument.
fn no_b() -> ! {
    let message = "there is nothing to compare with: name another model with --against, or another \
                   setting as in --b-kv q8_0\n";
    clap::Error::raw(ErrorKind::MissingRequiredArgument, message).exit()
}

fn parse_tail(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(tail) if (0.0..=1.0).contains(&tail) => Ok(tail),
        Ok(_) => Err("it must be from 0 to 1".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A and B at once, exactly.
fn side_by_side(args: &Args) -> Result<Outcome, Error> {
    let (sides, cut) = (Sides::open(args)?, args.cut());
    let tokens = sides.a_tokens(args)?;
    let passages = cut.passages(tokens.len()).map_err(|error| refused(error.into(), args))?;
    let vocabularies = [sides.a_vocabulary()?, sides.b_vocabulary()?];
    let (mut a, mut b) = (sides.load_a(args, cut.ctx)?, sides.load_b(args, cut.ctx)?);
    check_vocabularies(vocabularies, [&mut a, &mut b]).map_err(|error| refused(error, args))?;
    let scores = watched(args, passages * cut.ctx, "comparing", |watch| {
        let both = [a.session.predictor(), b.session.predictor()];
        kld::compare(both, &tokens, &cut, watch)
    })?;
    let (tokens, report) = (tokens.len(), Report::of(&scores));
    let reads = Reads::of(&a.session, &b.session);
    let (a, b) = (a.in_words, b.in_words);
    Ok(Outcome { a, b, tokens, passages, cut, base: None, report, reads })
}

fn check_vocabularies(found: [u64; 2], [a, b]: [&mut Loaded; 2]) -> Result<(), kld::Error> {
    let [a, b] = [a, b].map(|side| side.session.predictor().vocab());
    if found[0] == found[1] { Ok(()) } else { Err(kld::Error::Vocabulary { a, b }) }
}

/// Writes the base file, or what is missing of it.
fn save_base(args: &Args, path: &Path) -> Result<(), Error> {
    let (sides, cut) = (Sides::open(args)?, args.cut());
    let tokens = sides.a_tokens(args)?;
    cut.passages(tokens.len()).map_err(|error| refused(error.into(), args))?;
    let vocabulary = sides.a_vocabulary()?;
    let mut a = sides.load_a(args, cut.ctx)?;
    let keep = Keep { tail: args.tail, ..Keep::default() };
    let text = (&tokens[..], &cut);
    let header = Header::new(a.session.predictor(), vocabulary, a.in_words.clone(), text, keep)
        .map_err(|error| refused(error.into(), args))?;
    let built = watched(args, header.tokens.len(), "predicting", |watch| {
        base::build(path, &header, a.session.predictor(), watch)
    });
    if let (Err(Error::Interrupted), false) = (&built, args.quiet) {
        terminal::note(&format!("{}: the same command goes on there", path.display()));
    }
    let built = built?;
    if !args.quiet {
        let (size, found) = (units::bytes(built.bytes), built.found);
        let before =
            if found > 0 { format!(", {found} of them from before") } else { String::new() };
        let passages = units::count(built.passages, "passage");
        terminal::note(&format!("{}: {passages}{before}, {size}", path.display()));
    }
    Ok(())
}

/// B against a base file.
fn from_base(args: &Args, path: &Path) -> Result<Outcome, Error> {
    let base = Base::open(path).map_err(|error| refused_file(error, path, args))?;
    let header = base.header().clone();
    let sides = Sides::open(args)?;
    if args.base.is_some() && args.text.is_given() {
        let tokens = sides.b_tokens(args)?;
        if !tokens.starts_with(&header.tokens) {
            let what = "it is of another text than the one that is given; leave the text out, as \
                        the file holds it";
            return Err(Error::Refused(format!("{}: {what}", path.display())));
        }
    }
    let (cut, vocabulary) = (header.cut(), sides.b_vocabulary()?);
    let mut b = sides.load_b(args, cut.ctx)?;
    let scores: Vec<Score> = watched(args, header.tokens.len(), "comparing", |watch| {
        base::compare(base, b.session.predictor(), vocabulary, watch)
    })?;
    Ok(Outcome {
        a: header.about.clone(),
        b: b.in_words,
        tokens: header.tokens.len(),
        passages: header.passages(),
        cut,
        base: Some((path.to_owned(), header.keep)),
        report: Report::of(&scores),
        reads: Reads { a: None, b: b.session.reads() },
    })
}

/// Does some work on so many tokens with progress, until Ctrl-C.
fn watched<T>(
    args: &Args,
    total: usize,
    what: &'static str,
    work: impl FnOnce(&mut kld::Watch<'_>) -> Result<T, kld::Error>,
) -> Result<T, Error> {
    let _watch = interrupt::watch();
    let mut progress = Progress::new(args.show(), what, Unit::Tokens);
    let result = work(&mut |done| {
        progress.set(done as u64, total as u64);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.clear();
    result.map_err(|error| refused(error, args))
}

/// What the user is told.
fn refused(error: kld::Error, args: &Args) -> Error {
    let base = args.base.as_ref().or(args.save_base.as_ref());
    refused_file(error, base.map_or(Path::new(""), PathBuf::as_path), args)
}

/// The same, of the base file at `path`.
fn refused_file(error: kld::Error, path: &Path, args: &Args) -> Error {
    let shown = path.display();
    match error {
        kld::Error::Stopped => Error::Interrupted,
        kld::Error::Engine(error) => Error::Engine(error),
        kld::Error::File(FileError::Io(source)) => {
            let action = if args.base.is_some() { "read" } else { "write" };
            Error::file(action, path)(source)
        }
        kld::Error::File(error) => Error::Refused(format!("{shown}: {error}")),
        kld::Error::Cut(error) => Error::Refused(format!("{error} (--ctx, --skip)")),
        error @ (kld::Error::OtherBase { .. } | kld::Error::Incomplete { .. }) => {
            Error::Refused(format!("{shown}: {error}"))
        }
        error => Error::Refused(error.to_string()),
    }
}

/// Tells vocabularies of files apart.
fn vocabulary(file: &crate::model_file::ModelFile) -> Result<u64, Error> {
    Ok(vocabulary_fingerprint(&file.tokenizer()?))
}
