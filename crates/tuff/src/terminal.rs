//! Text for standard output. On a terminal, control characters of the model are left out and
//! asides are dimmed; into a pipe or file, text goes exactly as it is.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use crate::error::Error;

const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Whether asides can be told apart by how they look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A terminal with colours.
    Styled,
    /// A terminal without colours (or NO_COLOR), a pipe or a file.
    Plain,
}

/// Standard output as a stream of text.
pub(crate) struct TextOut {
    out: Box<dyn Write>,
    terminal: bool,
    look: Look,
    dimmed: bool,
}

impl TextOut {
    /// Standard output.
    pub(crate) fn stdout() -> TextOut {
        let terminal = io::stdout().is_terminal();
        let look = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => Look::Plain,
            _ => Look::Styled,
        };
        // The adapting stream would take escape sequences out of piped text, so pipes go around.
        let out: Box<dyn Write> =
            if terminal { Box::new(anstream::stdout()) } else { Box::new(io::stdout()) };
        TextOut { out, terminal, look, dimmed: false }
    }

    /// Whether a person is likely to read this.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How asides can look.
    pub(crate) fn look(&self) -> Look {
        self.look
    }

    /// Writes text and shows it at once.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Error> {
        self.set_dimmed(false)?;
        self.show(text)
    }

    /// Writes text that is an aside, dimmed where that is possible.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn aside(&mut self, text: &str) -> Result<(), Error> {
        self.set_dimmed(true)?;
        self.show(text)
    }

    /// Writes bytes that may not be text.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.terminal {
            return self.text(&String::from_utf8_lossy(bytes));
        }
        self.out.write_all(bytes).map_err(Error::Output)?;
        self.out.flush().map_err(Error::Output)
    }

    fn show(&mut self, text: &str) -> Result<(), Error> {
        let shown = if self.terminal { printable(text) } else { text.to_owned() };
        self.out.write_all(shown.as_bytes()).map_err(Error::Output)?;
        self.out.flush().map_err(Error::Output)
    }

    fn set_dimmed(&mut self, dimmed: bool) -> Result<(), Error> {
        if self.look == Look::Plain || self.dimmed == dimmed {
            return Ok(());
        }
        self.dimmed = dimmed;
        let code = if dimmed { DIM } else { RESET };
        self.out.write_all(code.as_bytes()).map_err(Error::Output)
    }
}

impl Drop for TextOut {
    fn drop(&mut self) {
        let _ = self.set_dimmed(false);
        let _ = self.out.flush();
    }
}

impl fmt::Debug for TextOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextOut").field("look", &self.look).finish_non_exhaustive()
    }
}

/// Without control characters other than line breaks and tabs: a terminal obeys them.
fn printable(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control()).collect()
}

/// A dimmed line on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{DIM}{}{RESET}", printable(text));
}

/// Writes to standard output, for reports that are made as a whole.
///
/// # Errors
/// [`Error::Output`].
pub(crate) fn print(text: &str) -> Result<(), Error> {
    TextOut::stdout().text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(printable("a\u{1b}[31mb\tc\nd\r\u{7}\u{7f}\u{9b}e"), "a[31mb\tc\nde");
        assert_eq!(printable("\u{4f60}\u{1f642}"), "\u{4f60}\u{1f642}");
    }
}
