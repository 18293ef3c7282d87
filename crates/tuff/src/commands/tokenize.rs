//! `tuff tokenize`: text into token ids.

use std::fmt::Write;

use clap::Args as ClapArgs;
use model::tokenizer::Tokenizer;

use crate::args::{ModelArg, TextArgs};
use crate::error::Error;
use crate::{ids, terminal};

const EXAMPLES: &str = "\
Examples:
  tuff tokenize \"Hello, world!\"                     one line per token: id and text
  tuff tokenize -m model.gguf -f story.txt --json   a JSON array of ids
  echo -n \"<|im_end|>\" | tuff tokenize --no-special --ids

The text is taken exactly as it is; `echo` without -n adds a line break to it. A file that holds
only metadata will do.";

/// Arguments of `tuff tokenize`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    text: TextArgs,
    /// Print the ids as a JSON array.
    #[arg(long)]
    json: bool,
    /// Print the ids separated by commas.
    #[arg(long, conflicts_with = "json")]
    ids: bool,
    #[command(flatten)]
    model: ModelArg,
}

/// Prints the tokens of a text.
///
/// # Errors
/// A file without a usable tokenizer, or an unreadable text.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let tokenizer = args.model.open()?.tokenizer()?;
    let text = args.text.read()?;
    let tokens = tokenizer.encode(&text, args.text.special()).map_err(Error::Tokenizer)?;
    let report = if args.json {
        format!("[{}]\n", ids::joined(&tokens))
    } else if args.ids {
        format!("{}\n", ids::joined(&tokens))
    } else {
        lines(&tokens, &tokenizer)
    };
    terminal::print(&report)
}

/// One line per token: id, tab, and the bytes it stands for in quotes.
fn lines(tokens: &[u32], tokenizer: &Tokenizer) -> String {
    let mut text = String::new();
    for &id in tokens {
        let piece = quoted(tokenizer.token_bytes(id).unwrap_or_default());
        let _ = writeln!(text, "{id}\t{piece}");
    }
    text
}

/// Bytes in quotes: characters as they are, the rest escaped as in a Rust string.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from('"');
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(char::escape_debug));
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_quoted_so_that_blanks_and_broken_characters_show() {
        assert_eq!(quoted(b" a\n\""), r#"" a\n\"""#);
        assert_eq!(quoted(b"\xe4\xbd"), r#""\xe4\xbd""#);
        assert_eq!(quoted("x\u{4f60}\u{1b}".as_bytes()), "\"x\u{4f60}\\u{1b}\"");
    }
}
