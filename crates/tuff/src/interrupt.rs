//! What Ctrl-C does: it ends the program, or only what the program is doing.
//!
//! The first Ctrl-C during watched work asks that work to end at the next step; a second one, or
//! one outside such work, ends the program with exit code 130. At the prompt of a conversation
//! the first one only says so.

use std::io::Write;
use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::error::Error;

/// Exit code of a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

const LEAVE: u8 = 0;
const WATCHED: u8 = 1;
const PROMPT: u8 = 2;

static DOING: AtomicU8 = AtomicU8::new(LEAVE);
static PRESSED: AtomicBool = AtomicBool::new(false);

/// While it lives, Ctrl-C is noted instead of ending the program. Watches may be nested.
#[derive(Debug)]
pub(crate) struct Watch {
    before: u8,
}

/// Starts to note Ctrl-C, for work that asks [`requested`] as it goes along.
pub(crate) fn watch() -> Watch {
    enter(WATCHED)
}

/// Starts to wait for input at a prompt, where the first Ctrl-C gives a hint.
pub(crate) fn at_prompt() -> Watch {
    enter(PROMPT)
}

/// True once Ctrl-C was pressed during the work.
pub(crate) fn requested() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// That nobody has pressed Ctrl-C.
///
/// # Errors
/// [`Error::Interrupted`].
pub(crate) fn check() -> Result<(), Error> {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}

fn enter(doing: u8) -> Watch {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if let Err(error) = ctrlc::set_handler(pressed) {
            tracing::warn!("Ctrl-C will end the program at once: {error}");
        }
    });
    PRESSED.store(false, Ordering::SeqCst);
    Watch { before: DOING.swap(doing, Ordering::SeqCst) }
}

impl Drop for Watch {
    fn drop(&mut self) {
        DOING.store(self.before, Ordering::SeqCst);
    }
}

/// Runs on a thread of its own whenever Ctrl-C is pressed.
fn pressed() {
    let again = PRESSED.swap(true, Ordering::SeqCst);
    match DOING.load(Ordering::SeqCst) {
        WATCHED if !again => {}
        PROMPT if !again => {
            let mut err = std::io::stderr();
            let _ = write!(err, "\n(Ctrl-C again or Ctrl-D leaves)\n> ");
            let _ = err.flush();
        }
        _ => {
            let _ = writeln!(std::io::stderr());
            process::exit(EXIT_INTERRUPTED);
        }
    }
}
