//! `tuff conversations`: which named conversations there are, and deleting them.

use std::time::{Duration, SystemTime};

use clap::{Args as ClapArgs, Subcommand};

use crate::conversations::{Entry, Folder, FolderArg, Name};
use crate::error::Error;
use crate::terminal::{note, print};
use crate::units;

const EXAMPLES: &str = "\
Examples:
  tuff conversations                        list them
  tuff conversations delete holiday taxes   delete two, with their saved states

`tuff chat --conversation NAME` begins one or goes on with it.";

/// Arguments of `tuff conversations`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    folder: FolderArg,
}

/// What is done with conversations.
#[derive(Debug, Subcommand)]
enum Action {
    /// List them: name, messages, age, model. Also without `list`.
    List(ListArgs),
    /// Delete some, with their saved states.
    Delete(DeleteArgs),
}

/// Arguments of `tuff conversations list`.
#[derive(Debug, ClapArgs)]
struct ListArgs {
    #[command(flatten)]
    folder: FolderArg,
}

/// Arguments of `tuff conversations delete`.
#[derive(Debug, ClapArgs)]
struct DeleteArgs {
    /// Names of the conversations.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<Name>,
    #[command(flatten)]
    folder: FolderArg,
}

/// Does what was asked.
///
/// # Errors
/// A folder that cannot be read; a conversation that is not there or is open elsewhere.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    match &args.action {
        None => list(&args.folder.folder()?),
        Some(Action::List(inner)) => list(&inner.folder.or(&args.folder).folder()?),
        Some(Action::Delete(delete)) => {
            let folder = delete.folder.or(&args.folder).folder()?;
            delete.names.iter().try_for_each(|name| folder.delete(name))
        }
    }
}

fn list(folder: &Folder) -> Result<(), Error> {
    let entries = folder.list()?;
    if entries.is_empty() {
        note(&format!("no conversations in {}", folder.path().display()));
        return Ok(());
    }
    let width = entries.iter().map(|entry| entry.name.as_str().chars().count()).max().unwrap_or(0);
    let now = SystemTime::now();
    let lines = entries.iter().map(|entry| line(entry, width, now));
    print(&lines.collect::<String>())?;
    let (path, states) = (folder.path().display(), units::bytes(folder.state_bytes()));
    note(&format!(
        "{} in {path}, saved states of {states}",
        units::count(entries.len(), "conversation")
    ));
    Ok(())
}

fn line(entry: &Entry, width: usize, now: SystemTime) -> String {
    let name = &entry.name;
    let age = entry.saved.map(|saved| age(now.duration_since(saved).unwrap_or_default()));
    let age = age.unwrap_or_default();
    match &entry.record {
        Ok(record) => {
            let messages = units::count(record.turns.len(), "message");
            format!("{name:width$}  {messages:>12}  {age:>14}  {}\n", record.model)
        }
        Err(reason) => format!("{name:width$}  unusable: {reason}\n"),
    }
}

/// `3 hours ago`.
fn age(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    let (number, unit) = match minutes {
        0 => return "just now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{} ago", units::count(usize::try_from(number).unwrap_or(usize::MAX), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_one_unit() {
        let cases =
            [(0, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (86400, "1 day ago")];
        for (seconds, text) in cases {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
