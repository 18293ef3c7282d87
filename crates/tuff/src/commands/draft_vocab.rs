//! `tuff draft-vocab`: choosing the tokens that drafts are made of.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use lab::draft_vocab::{BuildError, Recipe, Scripts, TokenCounts};
use model::DraftVocab;
use model::tokenizer::{SpecialTokens, Tokenizer};

use crate::args::{ModelArg, read_file};
use crate::error::Error;
use crate::output::OutputFile;
use crate::{terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff draft-vocab build -m model.gguf --scripts latin,cjk -o draft.ids
  tuff draft-vocab build -m model.gguf --corpus chats.txt code.txt --size 40000 -o draft.ids

A draft over fewer tokens is cheaper, and never changes a text: tokens that are not in the draft
vocabulary are only not drafted. `tuff inspect --draft-vocab` shows what is in one.";

const BUILD_EXAMPLES: &str = "\
Examples:
  tuff draft-vocab build -m model.gguf --scripts latin,cjk -o draft.ids
  tuff draft-vocab build --scripts latin,cyrillic --size 60000 -o draft.ids
  tuff draft-vocab build --corpus chats.txt code.txt --size 40000 -o draft.ids
  tuff draft-vocab build --corpus chats.txt --scripts latin --size 40000 -o draft.ids

Control tokens, user-defined tokens and single bytes always belong to it. Then come the tokens of
the corpus, the most frequent first, then those of the scripts in order of id, until there are N.
The file is a list of little-endian 32-bit ids; one of this name is replaced. A model file that
holds only metadata will do.";

/// Arguments of `tuff draft-vocab`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

impl Args {
    /// True if nothing but the result is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        let Action::Build(args) = &self.action;
        args.quiet
    }
}

/// What is done with draft vocabularies.
#[derive(Debug, Subcommand)]
enum Action {
    /// Make one from texts, from scripts, or both.
    Build(BuildArgs),
}

/// Arguments of `tuff draft-vocab build`.
#[derive(Debug, ClapArgs)]
#[command(after_help = BUILD_EXAMPLES)]
struct BuildArgs {
    /// Texts like those that will be written (UTF-8); control tokens in them are read as such.
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "scripts")]
    corpus: Vec<PathBuf>,
    /// Scripts that will be written, separated by commas: latin, cjk, kana, hangul, cyrillic,
    /// greek, arabic, hebrew, devanagari, thai or any other of Unicode.
    #[arg(long, value_name = "NAME,...")]
    scripts: Option<Scripts>,
    /// Ids at most. [default: all that qualify]
    #[arg(long, value_name = "N")]
    size: Option<usize>,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// No closing line.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    model: ModelArg,
}

/// Does what was asked.
///
/// # Errors
/// A file without a usable tokenizer; an unreadable text; [`Error::Refused`] for a recipe that
/// gives no list; [`Error::File`].
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let Action::Build(args) = &args.action;
    build(args)
}

fn build(args: &BuildArgs) -> Result<(), Error> {
    let tokenizer = args.model.open()?.tokenizer()?;
    let counts = count(&tokenizer, &args.corpus)?;
    let corpus = Some(&counts).filter(|_| !args.corpus.is_empty());
    let recipe = Recipe { corpus, scripts: args.scripts.as_ref(), size: args.size };
    let vocab = recipe.build(&tokenizer).map_err(|error| refused(&error))?;
    let mut output = OutputFile::create(&args.output)?;
    output.write_bytes(&vocab.to_bytes())?;
    output.finish()?;
    if !args.quiet {
        terminal::note(&summary(&args.output, &tokenizer, &vocab, corpus));
    }
    Ok(())
}

/// The tokens of all files.
fn count(tokenizer: &Tokenizer, files: &[PathBuf]) -> Result<TokenCounts, Error> {
    let mut counts = TokenCounts::new(tokenizer.vocab_size());
    for path in files {
        let text = read_file(path)?;
        counts.add(&tokenizer.encode(&text, SpecialTokens::Parse).map_err(Error::Tokenizer)?);
    }
    Ok(counts)
}

fn refused(error: &BuildError) -> Error {
    let advice = match error {
        BuildError::TooSmall { .. } => "; raise --size",
        BuildError::NoSource | BuildError::Ids(_) => "",
    };
    Error::Refused(format!("{error}{advice}"))
}

fn summary(
    path: &Path,
    tokenizer: &Tokenizer,
    vocab: &DraftVocab,
    corpus: Option<&TokenCounts>,
) -> String {
    let mut text = format!("{}: {}", path.display(), of_vocabulary(tokenizer, vocab));
    if let Some(counts) = corpus {
        let tokens = units::grouped(counts.total());
        let covered = units::percent(counts.coverage(vocab));
        text += &format!("; {covered} of the corpus ({tokens} tokens)");
    }
    text
}

/// `40,000 ids, 16.1 % of the vocabulary of 248,320`.
pub(crate) fn of_vocabulary(tokenizer: &Tokenizer, vocab: &DraftVocab) -> String {
    let (ids, all) = (vocab.len() as u64, tokenizer.vocab_size() as u64);
    let share = units::percent(ids as f64 / all as f64);
    format!("{} ids, {share} of the vocabulary of {}", units::grouped(ids), units::grouped(all))
}
