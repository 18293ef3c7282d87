//! The folder where fetched models lie.

use crate::{Error, Model, ModelName, choose};
use hf_hub::{Cache, Repo};
use std::fs;
use std::path::{Path, PathBuf};

/// How deep folders within a repository are searched.
const MAX_DEPTH: usize = 8;
/// Files of a repository that are looked at.
const MAX_FILES: usize = 10_000;

/// The folder of all models, as other programs of the hub have it too.
#[derive(Clone, Debug)]
pub struct Folder {
    cache: Cache,
}

impl Folder {
    /// This folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { cache: Cache::new(path.into()) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.cache.path()
    }

    /// The token that was left beside the folder by `hf auth login`.
    pub fn token(&self) -> Option<String> {
        self.cache.token()
    }

    /// Where the contents of a repository's files lie.
    pub(crate) fn contents(&self, name: &ModelName) -> PathBuf {
        self.path().join(Repo::model(name.repo.clone()).folder_name()).join("blobs")
    }

    /// Where the files of a commit lie by name.
    pub(crate) fn snapshot(&self, name: &ModelName, commit: &str) -> PathBuf {
        self.cache.model(name.repo.clone()).pointer_path(commit)
    }

    /// Notes which commit was fetched last.
    pub(crate) fn note(&self, name: &ModelName, commit: &str) -> Result<(), Error> {
        let noted = self.cache.model(name.repo.clone()).create_ref(commit);
        noted.map_err(|source| Error::Io {
            action: "write in",
            path: self.path().to_owned(),
            source,
        })
    }

    /// A model that was fetched: the first of its files.
    ///
    /// # Errors
    /// [`Error::Offline`] if there is none; [`Error::Choice`] if several are meant.
    pub fn find(&self, name: &ModelName) -> Result<PathBuf, Error> {
        let absent = || Error::Offline { name: name.to_string() };
        let reference = self.path().join(Repo::model(name.repo.clone()).folder_name());
        let reference = reference.join("refs").join("main");
        let commit = fs::read_to_string(reference).map_err(|_| absent())?;
        let commit = commit.trim();
        if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(absent());
        }
        let snapshot = self.snapshot(name, commit);
        let mut files = Vec::new();
        list(&snapshot, "", MAX_DEPTH, &mut files);
        match choose(name, &files) {
            Ok(Model { files, .. }) => {
                files.first().map(|file| snapshot.join(file)).ok_or_else(absent)
            }
            Err(Error::Choice { reason, there, .. }) if !reason.starts_with("no file") => {
                Err(Error::Choice { repo: name.repo.clone(), reason, there })
            }
            Err(_) => Err(absent()),
        }
    }
}

/// The files below a folder, by their paths from there. Links to files that are not there are none.
fn list(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        match fs::metadata(entry.path()) {
            Ok(found) if found.is_dir() && depth > 0 => {
                list(&entry.path(), &format!("{path}/"), depth - 1, files);
            }
            Ok(found) if found.is_file() && files.len() < MAX_FILES => files.push(path),
            _ => {}
        }
    }
}
