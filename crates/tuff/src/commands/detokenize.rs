//! `tuff detokenize`: token ids into text.

use clap::Args as ClapArgs;
use model::tokenizer::SkipSpecial;

use crate::args::{ModelArg, read_stdin};
use crate::error::Error;
use crate::ids;
use crate::terminal::TextOut;

const EXAMPLES: &str = "\
Examples:
  tuff detokenize 39,267,304
  tuff detokenize --json \"[39, 267, 304]\"
  tuff tokenize --json \"Hello\" | tuff detokenize

The bytes are written as they are, without a line break at the end.";

/// Arguments of `tuff detokenize`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Token ids, as in 1,2,3 or 1 2 3 or [1, 2, 3]; without any, standard input is read.
    #[arg(value_name = "IDS")]
    ids: Vec<String>,
    /// Print the text as a JSON string.
    #[arg(long)]
    json: bool,
    /// Leave control tokens such as <|im_end|> out.
    #[arg(long)]
    skip_special: bool,
    #[command(flatten)]
    model: ModelArg,
}

/// Prints the text of token ids.
///
/// # Errors
/// A file without a usable tokenizer; [`Error::Refused`] or [`Error::Tokenizer`] for bad ids.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let from_stdin = args.ids.is_empty() || args.ids == ["-"];
    let list = if from_stdin { read_stdin()? } else { args.ids.join(" ") };
    let ids = ids::parse(&list)?;
    let tokenizer = args.model.open()?.tokenizer()?;
    let skip = if args.skip_special { SkipSpecial::Yes } else { SkipSpecial::No };
    let bytes = tokenizer.decode(&ids, skip).map_err(Error::Tokenizer)?;
    let mut out = TextOut::stdout();
    if args.json {
        let text = serde_json::Value::from(String::from_utf8_lossy(&bytes));
        return out.text(&format!("{text}\n"));
    }
    out.bytes(&bytes)
}
