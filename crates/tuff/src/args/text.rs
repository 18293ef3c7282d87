//! A text given on the command line, in a file or on standard input.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::error::ErrorKind;
use model::tokenizer::SpecialTokens;

use crate::error::Error;

/// Standard input, where a file or text is named.
const STDIN: &str = "-";

/// One text.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Text")]
pub(crate) struct TextArgs {
    /// The text; `-` reads standard input, as does giving no text into a pipe.
    #[arg(value_name = "TEXT", conflicts_with_all = ["prompt", "file"])]
    text: Option<String>,
    /// The text, as an option.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File that holds the text (UTF-8, taken exactly); `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Treat control tokens that are spelled out in the text, such as <|im_end|>, as text.
    #[arg(long)]
    no_special: bool,
}

impl TextArgs {
    /// The text, exactly as given.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Input`]; [`Error::Refused`] for a text that is not UTF-8.
    pub(crate) fn read(&self) -> Result<String, Error> {
        if let Some(path) = &self.file {
            return read_file(path);
        }
        match self.text.as_ref().or(self.prompt.as_ref()) {
            Some(text) if text != STDIN => Ok(text.clone()),
            Some(_) => read_stdin(),
            None if io::stdin().is_terminal() => no_text(),
            None => read_stdin(),
        }
    }

    /// Whether the command line names a text.
    pub(crate) fn is_given(&self) -> bool {
        self.text.is_some() || self.prompt.is_some() || self.file.is_some()
    }

    /// What becomes of control tokens in the text.
    pub(crate) fn special(&self) -> SpecialTokens {
        if self.no_special { SpecialTokens::AsText } else { SpecialTokens::Parse }
    }
}

/// Ends the program as clap does for a missing argument.
fn no_text() -> ! {
    let message = "no text was given: add -p TEXT or -f FILE, or pipe a text in\n";
    clap::Error::raw(ErrorKind::MissingRequiredArgument, message).exit()
}

/// Reads a text file; `-` is standard input.
///
/// # Errors
/// As [`TextArgs::read`].
pub(crate) fn read_file(path: &Path) -> Result<String, Error> {
    if path.as_os_str() == STDIN {
        return read_stdin();
    }
    let bytes = fs::read(path).map_err(Error::file("read", path))?;
    utf8(bytes, &path.display().to_string())
}

/// Reads standard input to its end.
///
/// # Errors
/// As [`TextArgs::read`].
pub(crate) fn read_stdin() -> Result<String, Error> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(Error::Input)?;
    utf8(bytes, "standard input")
}

fn utf8(bytes: Vec<u8>, what: &str) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::Refused(format!("{what} is not UTF-8: first bad byte at {at}; convert it first"))
    })
}
