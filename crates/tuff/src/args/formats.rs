//! Options of the commands that write model files: formats by role, and how the file is written.

use std::path::PathBuf;
use std::thread;

use clap::Args;
use lab::imatrix::Imatrix;
use lab::transform::{
    Choice, GROUPS, Overwrite, Recipe, Resume, Settings, encodable_names, single_roles,
};

use crate::error::Error;

/// Threads at most: more would wait for the disk.
const MAX_THREADS: usize = 64;
/// Columns of the lists in help.
const WIDTH: usize = 96;

/// Which formats.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Formats")]
pub(crate) struct FormatArgs {
    /// Format for a role of tensors or a group of roles, as in dense=q8_0, or keep to leave
    /// it as it is; may be given several times, and the last one that covers a role counts.
    #[arg(short, long, value_name = "ROLE=FORMAT")]
    role: Vec<Choice>,
    /// Importance matrix of the model, in GGUF form or the older .dat: encoders that search for
    /// scales then care most for the columns that matter most.
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
}

/// How the file is written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Writing")]
pub(crate) struct WriteArgs {
    /// Only show what would be written.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace an existing file once the new one is complete.
    #[arg(long)]
    force: bool,
    /// Forget what a stopped run has written.
    #[arg(long)]
    restart: bool,
    /// Threads that encode. [default: as many as the machine runs at once]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// No table, no progress, no closing line.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl FormatArgs {
    /// The formats by role.
    pub(crate) fn recipe(&self) -> Recipe {
        Recipe::new(self.role.clone())
    }

    /// True if no format was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.role.is_empty()
    }

    /// The importance matrix, if one is named.
    ///
    /// # Errors
    /// [`Error::Transform`].
    pub(crate) fn imatrix(&self) -> Result<Option<Imatrix>, Error> {
        let read = self.imatrix.as_deref().map(Imatrix::read).transpose();
        read.map_err(|error| Error::Transform(error.into()))
    }
}

impl WriteArgs {
    /// Settings for reading these files.
    pub(crate) fn settings(&self, inputs: Vec<PathBuf>) -> Settings {
        let most = || thread::available_parallelism().map_or(1, usize::from);
        Settings {
            overwrite: if self.force { Overwrite::Replace } else { Overwrite::Refuse },
            resume: if self.restart { Resume::Restart } else { Resume::IfPossible },
            threads: self.threads.unwrap_or_else(most).clamp(1, MAX_THREADS),
            piece_bytes: Settings::PIECE_BYTES,
            inputs,
        }
    }
}

/// The lists of groups, roles and formats, for the end of a command's help.
pub(crate) fn format_lists() -> String {
    let mut text = "Groups of roles:\n".to_owned();
    for group in GROUPS {
        text += &format!("  {:<10} {}\n", group.name, group.what);
    }
    text += "\nRoles:\n";
    text += &wrapped(single_roles());
    text += "\nFormats that can be written:\n";
    let formats = encodable_names();
    text += &wrapped(formats.split(", "));
    text
}

/// Words in indented lines.
fn wrapped<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for word in words {
        if line.len() + word.len() + 1 > WIDTH {
            text += &format!(" {line}\n");
            line.clear();
        }
        line += &format!(" {word}");
    }
    format!("{text} {line}\n")
}
