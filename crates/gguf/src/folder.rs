//! Finding the one model in a folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::split::PartName;

/// Files of these names go with a model but are not one: speculation heads, vision projectors.
const ADDITIONS: [&[u8]; 2] = [b"mtp-", b"mmproj"];

/// What makes files one model: their common prefix and number of parts, or the file itself.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Single(OsString),
    Split(OsString, u32),
}

/// The file to open for the model in the folder: of a split model the first part that is there.
///
/// Only files named `*.gguf` count, without hidden ones and without additions to a model
/// (`mtp-*`, `mmproj*`).
///
/// # Errors
/// Unless the folder holds exactly one model.
pub(crate) fn find_model(folder: &Path) -> Result<PathBuf, Error> {
    let read = |source| Error::io(folder, "read the folder", source);
    let mut groups: BTreeMap<Group, (u32, PathBuf)> = BTreeMap::new();
    let mut ignored = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if !is_visible_gguf(&path) || !path.is_file() {
            continue;
        }
        let name = path.file_name().unwrap_or_default();
        if ADDITIONS.iter().any(|start| name.as_encoded_bytes().starts_with(start)) {
            ignored.push(path);
            continue;
        }
        let (group, number) = match PartName::parse(name) {
            Some(part) => (Group::Split(part.prefix, part.count), part.number),
            None => (Group::Single(name.to_owned()), 1),
        };
        let first = groups.entry(group).or_insert_with(|| (number, path.clone()));
        if number < first.0 {
            *first = (number, path);
        }
    }
    let mut candidates: Vec<PathBuf> = groups.into_values().map(|(_, path)| path).collect();
    ignored.sort();
    let path = folder.to_owned();
    match candidates.len() {
        0 => Err(Error::NoModel { path, ignored }),
        1 => Ok(candidates.remove(0)),
        _ => Err(Error::ManyModels { path, candidates }),
    }
}

fn is_visible_gguf(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}
