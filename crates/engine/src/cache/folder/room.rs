//! Which files there are, how much they take, and what goes when the budget is short.
//!
//! First pieces that no state needs. Then states: those that cannot be read; those that the same
//! owner has a longer one of; what was not used for the longest time. A piece goes with the last
//! state that needs it.

use super::file::{Header, read_header};
use super::names::{Name, Owner, Text, UNFINISHED};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A state that lies in the folder.
#[derive(Debug)]
pub(super) struct State {
    pub(super) text: Text,
    pub(super) owner: Owner,
    bytes: u64,
    used: SystemTime,
    /// `None` if its file does not say.
    header: Option<Header>,
}

/// All files of a folder. Those of others do not count.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    pub(super) states: Vec<State>,
    pieces: HashMap<Name, u64>,
}

/// Whether the headers of states are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Names and sizes.
    Names,
    /// Also which pieces a state needs.
    Headers,
}

impl Files {
    /// Lists a folder.
    pub(super) fn list(path: &Path, depth: Depth) -> io::Result<Self> {
        let mut files = Self { path: path.to_owned(), states: Vec::new(), pieces: HashMap::new() };
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().and_then(Name::parse) else { continue };
            // What is no file, or has gone meanwhile, is nothing of ours.
            let Some(found) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
            match name {
                Name::State(text, owner) => {
                    let header = match depth {
                        Depth::Names => None,
                        Depth::Headers => read_header(&entry.path()),
                    };
                    let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    files.states.push(State { text, owner, bytes: found.len(), used, header });
                }
                piece => {
                    files.pieces.insert(piece, found.len());
                }
            }
        }
        Ok(files)
    }

    /// Removes what programs left that were stopped while they wrote. Only for whoever has the
    /// folder to itself.
    pub(super) fn remove_unfinished(path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            let whole = name.to_str().and_then(|name| name.strip_suffix(UNFINISHED));
            if whole.and_then(Name::parse).is_some() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.values().sum::<u64>() + self.states.iter().map(|state| state.bytes).sum::<u64>()
    }

    /// The file of a piece, the one that holds more if there are two.
    pub(super) fn piece_name(&self, text: Text) -> Option<Name> {
        let names = [true, false].map(|has_mtp| Name::piece(text, has_mtp));
        names.into_iter().find(|name| self.pieces.contains_key(name))
    }

    /// Bytes of a piece that is there, with as much as is wanted or more.
    pub(super) fn piece(&self, text: Text, has_mtp: bool) -> Option<u64> {
        let name = self.piece_name(text)?;
        let enough = !has_mtp || name == Name::piece(text, true);
        self.pieces.get(&name).copied().filter(|_| enough)
    }

    /// Whether a state is there.
    pub(super) fn has_state(&self, text: Text, owner: Owner) -> bool {
        self.states.iter().any(|state| (state.text, state.owner) == (text, owner))
    }

    /// Notes a new piece.
    pub(super) fn add_piece(&mut self, name: Name, bytes: u64) {
        self.pieces.insert(name, bytes);
    }

    /// Removes a piece, if it is there.
    pub(super) fn remove_piece(&mut self, name: Name) -> io::Result<()> {
        self.remove(name)?;
        self.pieces.remove(&name);
        Ok(())
    }

    /// Removes files until `more` bytes fit into `budget`, none of the pieces in `keep`; whether
    /// they do.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub(super) fn make_room(
        &mut self,
        (more, budget): (u64, u64),
        keep: &HashSet<Text>,
    ) -> io::Result<bool> {
        while self.bytes().saturating_add(more) > budget {
            if self.sweep(keep)? {
                continue;
            }
            let ranks = (0..self.states.len()).map(|index| (self.rank(index), index));
            let Some((_, first)) = ranks.min() else { return Ok(false) };
            self.remove_state(first)?;
            self.sweep(keep)?;
        }
        Ok(true)
    }

    /// Removes pieces that no state needs and that are not in `keep`; whether there were any.
    pub(super) fn sweep(&mut self, keep: &HashSet<Text>) -> io::Result<bool> {
        let mut needed = keep.clone();
        for State { text: Text { context, .. }, header, .. } in &self.states {
            let pieces = header.iter().flat_map(|header| &header.pieces);
            needed.extend(pieces.map(|&tokens| Text { context: *context, tokens }));
        }
        let names: Vec<Name> = self.pieces.keys().copied().collect();
        let mut removed = false;
        for name in names {
            let (Name::Piece(text) | Name::FullPiece(text)) = name else { continue };
            let doubled = || name == Name::Piece(text) && self.piece(text, true).is_some();
            if !needed.contains(&text) || doubled() {
                self.remove_piece(name)?;
                removed = true;
            }
        }
        Ok(removed)
    }

    /// Removes the states that `goes` says.
    pub(super) fn remove_states(&mut self, goes: impl Fn(&State) -> bool) -> io::Result<()> {
        while let Some(index) = self.states.iter().position(&goes) {
            self.remove_state(index)?;
        }
        Ok(())
    }

    fn remove_state(&mut self, index: usize) -> io::Result<()> {
        let State { text, owner, .. } = self.states[index];
        self.remove(Name::State(text, owner))?;
        self.states.remove(index);
        Ok(())
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        match fs::remove_file(self.path.join(name.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What goes first has the lowest.
    fn rank(&self, index: usize) -> (bool, bool, SystemTime, usize) {
        let state = &self.states[index];
        let Some(header) = &state.header else { return (false, false, state.used, 0) };
        let longer = |other: &State| {
            let Some(more) = &other.header else { return false };
            let same = (other.owner, other.text.context) == (state.owner, state.text.context);
            same && more.len > header.len && more.pieces.starts_with(&header.pieces)
        };
        let nested = self.states.iter().any(longer);
        (true, !nested, state.used, header.len)
    }
}
