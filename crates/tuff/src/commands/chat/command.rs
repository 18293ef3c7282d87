//! Lines that begin with a slash.

use clap::ValueEnum;

use super::Think;

/// What `/help` shows.
pub(crate) const HELP: &str = "\
/help               this list
/think on|off|hide  show the model's thinking, switch it off, or hide it; alone: on or off
/system TEXT        set the system message; without TEXT: remove it
/regen              answer the last message again, differently
/reset              forget the conversation; the system message stays
/stats              tokens and speed of the last answer, and how full the context is
/exit               leave (also Ctrl-D)
//TEXT              a message that begins with a slash
Ctrl-C stops an answer.";

/// A line of input, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nothing.
    Empty,
    /// A message to the model.
    Message(String),
    /// `/help`.
    Help,
    /// `/think`, with a mode or as a switch.
    Think(Option<Think>),
    /// `/system`.
    System(Option<String>),
    /// `/regen`.
    Regen,
    /// `/reset`.
    Reset,
    /// `/stats`.
    Stats,
    /// `/exit`.
    Exit,
    /// A slash and something else; the reason is for the user.
    Unknown(String),
}

impl Line {
    /// Reads a line.
    pub(crate) fn parse(line: &str) -> Line {
        let line = line.trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() {
            return Line::Empty;
        }
        let Some(rest) = line.strip_prefix('/') else { return Line::Message(line.to_owned()) };
        if rest.starts_with('/') {
            return Line::Message(rest.to_owned());
        }
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
        match (name, argument) {
            ("system", text) => Line::System(text.map(str::to_owned)),
            ("think", mode) => think(mode),
            ("help", None) => Line::Help,
            ("regen", None) => Line::Regen,
            ("reset", None) => Line::Reset,
            ("stats", None) => Line::Stats,
            ("exit" | "quit", None) => Line::Exit,
            ("help" | "regen" | "reset" | "stats" | "exit" | "quit", Some(_)) => {
                Line::Unknown(format!("/{name} takes no argument"))
            }
            _ => Line::Unknown(format!(
                "there is no command /{name}: /help lists them; // begins a message with a slash"
            )),
        }
    }
}

fn think(mode: Option<&str>) -> Line {
    match mode.map(|mode| Think::from_str(mode, true)) {
        None => Line::Think(None),
        Some(Ok(mode)) => Line::Think(Some(mode)),
        Some(Err(_)) => Line::Unknown("/think knows on, off and hide".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let message = |text: &str| Line::Message(text.to_owned());
        let cases = [
            ("Hello\n", message("Hello")),
            ("  two words \r\n", message("  two words ")),
            (" /help\n", message(" /help")),
            ("//etc/hosts\n", message("/etc/hosts")),
            ("\n", Line::Empty),
            ("  \n", Line::Empty),
            ("/help", Line::Help),
            ("/think", Line::Think(None)),
            ("/think Hide\n", Line::Think(Some(Think::Hide))),
            ("/system  Be brief. \n", Line::System(Some("Be brief.".to_owned()))),
            ("/system\n", Line::System(None)),
            ("/quit\n", Line::Exit),
            ("/regen\n", Line::Regen),
        ];
        for (line, expected) in cases {
            assert_eq!(Line::parse(line), expected, "{line:?}");
        }
        for line in ["/think loud", "/nothing", "/", "/exit now"] {
            assert!(matches!(Line::parse(line), Line::Unknown(_)), "{line}");
        }
    }
}
