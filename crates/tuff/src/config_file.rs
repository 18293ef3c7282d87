//! `--config FILE`: options of a command in TOML, under the names that they have on the command
//! line. What stands there wins over the file.
//!
//! The file is turned into arguments before the others, so that both are read and checked by the
//! same code, with the same messages.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, Parser};
use toml::Value;

use crate::args::read_file;
use crate::cli::Cli;
use crate::error::Error;

/// The option that names the file.
const OPTION: &str = "--config";
/// The command that reads one.
const COMMAND: &str = "serve";

/// The command line, with the arguments of a file where it names one.
///
/// # Errors
/// A file that cannot be read, is not TOML, or names options that there are not.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, Error> {
    let Some(path) = named(&arguments) else { return Ok(Cli::parse_from(arguments)) };
    let path = Path::new(&path);
    let refused = |why: String| Error::Refused(format!("{}: {why}", path.display()));
    let text = read_file(path)?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        refused(format!("line {line}: {}", error.message()))
    })?;
    let given = given_options(&arguments);
    let mut from_file = Vec::new();
    for (name, value) in &table {
        let known = is_option(name).ok_or_else(|| {
            refused(format!("there is no option {name:?}; see `tuff {COMMAND} --help`"))
        })?;
        // Lists would add up, so what the command line names is not taken from the file at all.
        if !given.contains(&known.long) {
            from_file.extend(arguments_of(name, value, known.is_flag).map_err(refused)?);
        }
    }
    let command = arguments.iter().position(|argument| argument == COMMAND).unwrap_or(0) + 1;
    let (before, after) = arguments.split_at(command);
    let all = before.iter().cloned().chain(from_file).chain(after.iter().cloned());
    match Cli::try_parse_from(all) {
        Ok(cli) => Ok(cli),
        // What is right without the file is wrong in the file.
        Err(error) if Cli::try_parse_from(&arguments).is_ok() => Err(refused(first_line(&error))),
        Err(error) => error.exit(),
    }
}

/// What is wrong, without the advice on the command line.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// The file that the command line names.
fn named(arguments: &[OsString]) -> Option<OsString> {
    if !arguments.iter().skip(1).any(|argument| argument == COMMAND) {
        return None;
    }
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == OPTION {
            return rest.next().cloned();
        }
        let value = argument.to_str().and_then(|text| text.strip_prefix(OPTION)?.strip_prefix('='));
        if let Some(value) = value {
            return Some(value.into());
        }
    }
    None
}

/// An option of the command.
struct Known {
    long: String,
    is_flag: bool,
}

fn is_option(name: &str) -> Option<Known> {
    let command = Cli::command();
    let command = command.find_subcommand(COMMAND)?;
    let found = command.get_arguments().find(|argument| argument.get_long() == Some(name))?;
    // Not of use in a file: a file does not name another.
    let of_use = !matches!(name, "config" | "help" | "version");
    let is_flag = !found.get_action().takes_values();
    of_use.then(|| Known { long: name.to_owned(), is_flag })
}

/// The long names of the options on the command line, short ones included.
fn given_options(arguments: &[OsString]) -> Vec<String> {
    let command = Cli::command();
    let command = command.find_subcommand(COMMAND);
    let long_of = |short: char| {
        let mut all = command?.get_arguments();
        all.find(|argument| argument.get_short() == Some(short))?.get_long().map(str::to_owned)
    };
    let one = |argument: &OsString| {
        let text = argument.to_str()?;
        match text.strip_prefix("--") {
            Some(long) => Some(long.split('=').next().unwrap_or(long).to_owned()),
            None => long_of(text.strip_prefix('-')?.chars().next()?),
        }
    };
    arguments.iter().filter_map(one).collect()
}

/// The arguments that a setting stands for.
fn arguments_of(name: &str, value: &Value, is_flag: bool) -> Result<Vec<OsString>, String> {
    match (value, is_flag) {
        (Value::Boolean(true), true) => Ok(vec![format!("--{name}").into()]),
        (Value::Boolean(false), true) => Ok(Vec::new()),
        (_, true) => Err(format!("{name} must be true or false")),
        (Value::Array(values), false) => {
            let one = |value| Ok(format!("--{name}={}", text_of(name, value)?).into());
            values.iter().map(one).collect()
        }
        (value, false) => Ok(vec![format!("--{name}={}", text_of(name, value)?).into()]),
    }
}

fn text_of(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!("{name} must be a text or a number, or a list of them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(all: &[&str]) -> Vec<OsString> {
        all.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_file_is_found_and_so_are_the_options_beside_it() {
        let all = arguments(&["tuff", "serve", "--config", "a.toml", "-m", "x", "--port=1"]);
        assert_eq!(named(&all), Some("a.toml".into()));
        assert_eq!(given_options(&all), ["config", "model", "port"]);
        assert_eq!(named(&arguments(&["tuff", "serve", "--config=b"])), Some("b".into()));
        assert_eq!(named(&arguments(&["tuff", "run", "--config", "b"])), None);
        assert_eq!(named(&arguments(&["tuff", "serve"])), None);
    }

    #[test]
    fn settings_become_arguments() {
        let of = |name: &str, value: &str, is_flag| {
            let table: toml::Table = format!("x = {value}").parse().unwrap();
            arguments_of(name, &table["x"], is_flag)
        };
        assert_eq!(of("port", "80", false).unwrap(), ["--port=80"]);
        assert_eq!(of("alias", "[\"a\", \"b\"]", false).unwrap(), ["--alias=a", "--alias=b"]);
        assert_eq!(of("insecure-public", "true", true).unwrap(), ["--insecure-public"]);
        assert!(of("insecure-public", "false", true).unwrap().is_empty());
        assert!(of("insecure-public", "1", true).is_err());
        assert!(of("port", "{}", false).is_err());
        assert!(is_option("port").is_some() && is_option("config").is_none());
        assert!(is_option("nothing").is_none());
    }
}
