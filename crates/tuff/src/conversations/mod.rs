//! Conversations that have a name, kept on disk: a folder with a file for each, which holds its
//! text, and beside them the states that spare computing it again.

mod name;
mod record;
mod store;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use engine::cache::{FolderError, Owner, StateFolder};
use etcetera::BaseStrategy;

use crate::error::Error;

pub(crate) use name::Name;
pub(crate) use record::{Record, Turn};
pub(crate) use store::Store;

/// Names the folder for commands without --conversations.
const VARIABLE: &str = "TUFF_CONVERSATIONS";

/// Where conversations are.
#[derive(Debug, Clone, Args)]
pub(crate) struct FolderArg {
    /// Folder of the named conversations. [default: what TUFF_CONVERSATIONS names, otherwise
    /// tuff/conversations in the user's data folder]
    #[arg(long, value_name = "DIR")]
    conversations: Option<PathBuf>,
}

/// The folder of all conversations.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// A conversation in the list.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: Name,
    /// When it was saved.
    pub(crate) saved: Option<SystemTime>,
    /// What was said, or why that cannot be told.
    pub(crate) record: Result<Record, String>,
}

impl FolderArg {
    /// This one, or another where it names none: the option may stand before a subcommand.
    pub(crate) fn or(&self, other: &FolderArg) -> FolderArg {
        FolderArg { conversations: self.conversations.clone().or(other.conversations.clone()) }
    }

    /// The folder that was named, or that of the user.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot be told where the user's data is.
    pub(crate) fn folder(&self) -> Result<Folder, Error> {
        let variable = || env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = match self.conversations.clone().or_else(variable) {
            Some(path) => path,
            None => {
                let base = etcetera::choose_base_strategy().map_err(|error| {
                    let advice =
                        "name a folder with --conversations DIR or the environment variable";
                    Error::Refused(format!(
                        "no folder for conversations: {error}; {advice} {VARIABLE}"
                    ))
                })?;
                base.data_dir().join("tuff").join("conversations")
            }
        };
        Ok(Folder { path })
    }
}

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the place of a conversation; see [`Store::open`].
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub(crate) fn open(&self, name: &Name) -> Result<Store, Error> {
        Store::open(&self.path, name)
    }

    /// The saved states, made with these settings, and bytes that they may take.
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn states(&self, settings: &str, budget: u64) -> Result<StateFolder, FolderError> {
        StateFolder::open(&self.states_path(), settings, budget)
    }

    /// All conversations in order of their names.
    ///
    /// # Errors
    /// [`Error::File`] if the folder is there and cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<Entry>, Error> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        let error = |error| Error::file("read", &self.path)(error);
        for file in fs::read_dir(&self.path).map_err(error)? {
            let path = file.map_err(error)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
            let Some(Ok(name)) = name.map(str::parse) else { continue };
            let saved = fs::metadata(&path).and_then(|found| found.modified()).ok();
            let record = match store::read(&path) {
                Ok(bytes) => Record::from_bytes(&bytes.unwrap_or_default()),
                Err(error) => {
                    entries.push(Entry { name, saved, record: Err(error.to_string()) });
                    continue;
                }
            };
            entries.push(Entry { name, saved, record: record.map_err(|error| error.to_string()) });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Deletes a conversation and its saved states.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none or it is open elsewhere; [`Error::File`].
    pub(crate) fn delete(&self, name: &Name) -> Result<(), Error> {
        let none = || {
            let (name, path) = (name.as_str(), self.path.display());
            Error::Refused(format!("there is no conversation {name:?} in {path}"))
        };
        // Before anything is made there.
        if !self.path.join(format!("{name}.json")).exists() {
            return Err(none());
        }
        let store = self.open(name)?;
        if !store.exists() {
            return Err(none());
        }
        // The states first: they must not be left behind without a name to delete them by.
        if self.states_path().exists() {
            let forgotten = self.states("", 0).and_then(|mut states| states.forget(owner(name)));
            forgotten.map_err(|error| match error {
                FolderError::Io { path, source } => Error::File { action: "delete", path, source },
                FolderError::Engine(source) => Error::Engine(source),
            })?;
        }
        store.remove()
    }

    /// Bytes of the saved states of all conversations.
    pub(crate) fn state_bytes(&self) -> u64 {
        if !self.states_path().exists() {
            return 0;
        }
        self.states("", 0).and_then(|states| states.bytes()).unwrap_or(0)
    }

    fn states_path(&self) -> PathBuf {
        self.path.join("states")
    }
}

/// Whose states those of a conversation are.
pub(crate) fn owner(name: &Name) -> Owner {
    Owner::named(name.as_str())
}
