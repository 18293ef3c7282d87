//! Saved states in a folder, so that they outlive the program.
//!
//! A piece has a file of its own, which all texts share that begin with it: a conversation that
//! grows writes its new pieces and one snapshot. A snapshot's file says which pieces it needs.
//! `names` are the files' names, `file` their content, `room` the budget, `engine` the way from
//! and to slots.
//!
//! Several programs may use a folder: who writes or removes has it alone (`File::lock`), who reads
//! shares it with readers.

mod engine;
mod file;
mod names;
mod room;

use super::Hit;
use crate::fingerprint::Fingerprint;
use crate::snapshot::{Encoder, PIECE_TOKENS};
use crate::{Error, Piece, Snapshot};
use file::{Expected, Header};
use names::{Name, Text};
use room::{Depth, Files};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use engine::FromFolder;
pub use names::Owner;

const LOCK: &str = "lock";

/// A folder of saved states.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    settings: Fingerprint,
    budget: u64,
    /// Files that turned out to be unusable: the next of their name replaces them.
    unusable: HashSet<Name>,
}

/// What became of a state that was to be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is on the disk now.
    Written {
        /// Tokens that it spares.
        tokens: usize,
        /// Bytes that were written.
        bytes: u64,
        /// Bytes of all files of the folder.
        total: u64,
    },
    /// It was there before.
    Known {
        /// Tokens that it spares.
        tokens: usize,
    },
    /// It does not fit into the budget, whatever else goes.
    NoRoom,
    /// There is no state that the text could go on from.
    Nothing,
}

/// Why a folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system: no such folder, no permission, a full disk.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A state could not be taken from its slot.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// A state that can be saved: snapshot and pieces as files have them.
trait Source {
    /// All tokens.
    fn tokens(&self) -> Vec<u32>;
    /// Whether the piece number `index` comes with the drafting block's rows.
    fn has_mtp(&self, index: usize) -> bool;
    /// Appends the snapshot.
    fn snapshot(&mut self, to: &mut Encoder) -> Result<(), Error>;
    /// Appends the piece number `index`.
    fn piece(&mut self, index: usize, to: &mut Encoder) -> Result<(), Error>;
}

/// Whether a state can be used, and its tokens.
type Check<'a> = dyn Fn(&[Piece], &Snapshot) -> Result<Vec<u32>, Error> + 'a;

/// What was found for a text.
#[derive(Debug, Default)]
struct Found {
    state: Option<(Vec<Piece>, Snapshot)>,
    ignored: Vec<String>,
}

/// A text that is to be saved: the fingerprints up to the end of each piece, and of all of it.
struct Prints {
    pieces: Vec<u64>,
    all: u64,
}

impl StateFolder {
    /// The folder at `path`, which is made if it is not there; its files never take more than
    /// `budget` bytes. `settings` is whatever decides about a state's bits besides model and
    /// backend: instruction set, precision of activations, version of the program.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn open(path: &Path, settings: &str, budget: u64) -> Result<Self, FolderError> {
        let io = |source| FolderError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(io)?;
        let mut print = Fingerprint::new();
        print.add(settings.as_bytes());
        Ok(Self { path: path.to_owned(), settings: print, budget, unusable: HashSet::new() })
    }

    /// Bytes of all files.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn bytes(&self) -> Result<u64, FolderError> {
        Files::list(&self.path, Depth::Names).map(|files| files.bytes()).map_err(self.io())
    }

    /// Most bytes that its files may take.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Removes all states of an owner, and the pieces that nothing else needs then.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn forget(&mut self, owner: Owner) -> Result<(), FolderError> {
        let forget = || {
            let _lock = self.lock_alone()?;
            Files::remove_unfinished(&self.path)?;
            let mut files = Files::list(&self.path, Depth::Headers)?;
            files.remove_states(|state| state.owner == owner)?;
            files.sweep(&HashSet::new())?;
            file::sync_folder(&self.path)
        };
        forget().map_err(self.io())
    }

    /// Writes a state, as far as it is not there. Room is made first: never is the budget exceeded.
    fn put(
        &mut self,
        (context, owner): (u64, Owner),
        source: &mut dyn Source,
    ) -> Result<Saved, FolderError> {
        let io = self.io();
        let _lock = self.lock_alone().map_err(&io)?;
        Files::remove_unfinished(&self.path).map_err(&io)?;
        let mut files = Files::list(&self.path, Depth::Headers).map_err(&io)?;
        let saved = self.put_into(&mut files, (context, owner), source);
        if !matches!(saved, Ok(Saved::Written { .. } | Saved::Known { .. })) {
            // Pieces of what could not be saved; the reason for that is told, not this.
            let _ = files.sweep(&HashSet::new());
        }
        saved
    }

    fn put_into(
        &mut self,
        files: &mut Files,
        (context, owner): (u64, Owner),
        source: &mut dyn Source,
    ) -> Result<Saved, FolderError> {
        let io = self.io();
        let tokens = source.tokens();
        let prints = Prints::of(&tokens);
        let text = Text { context, tokens: prints.all };
        let name = Name::State(text, owner);
        let tokens = tokens.len();
        let keep = prints.texts(context);
        let whole = keep.iter().all(|text| files.piece_name(*text).is_some());
        if self.unusable.remove(&name) || !whole {
            files.remove_states(|state| (state.text, state.owner) == (text, owner)).map_err(&io)?;
        }
        if files.has_state(text, owner) {
            self.touch(name);
            return Ok(Saved::Known { tokens });
        }
        let header = Header { len: tokens, pieces: prints.pieces.clone() };
        let mut state = file::begin_state(context, &header);
        source.snapshot(&mut state)?;
        let state = file::finish(state).0;
        let Some(bytes) = self.put_pieces(files, (context, &prints), source, state.len())? else {
            return Ok(Saved::NoRoom);
        };
        if !files.make_room((state.len() as u64, self.budget), &keep).map_err(&io)? {
            return Ok(Saved::NoRoom);
        }
        // Its pieces are there for good before it is.
        file::sync_folder(&self.path).map_err(&io)?;
        file::write(&self.path.join(name.to_string()), &state).map_err(&io)?;
        file::sync_folder(&self.path).map_err(&io)?;
        let written = state.len() as u64;
        Ok(Saved::Written { tokens, bytes: bytes + written, total: files.bytes() + written })
    }

    /// Writes the pieces that are not there, if they and the `rest` of the state fit; their bytes.
    fn put_pieces(
        &mut self,
        files: &mut Files,
        (context, prints): (u64, &Prints),
        source: &mut dyn Source,
        rest: usize,
    ) -> Result<Option<u64>, FolderError> {
        let io = self.io();
        let keep = prints.texts(context);
        let (mut known, mut missing) = (0, Vec::new());
        for (index, &tokens) in prints.pieces.iter().enumerate() {
            let (text, has_mtp) = (Text { context, tokens }, source.has_mtp(index));
            for name in [Name::piece(text, true), Name::piece(text, false)] {
                if self.unusable.remove(&name) {
                    files.remove_piece(name).map_err(&io)?;
                }
            }
            match files.piece(text, has_mtp) {
                Some(bytes) => known += bytes,
                None => missing.push((index, Name::piece(text, has_mtp))),
            }
        }
        let mut written = 0;
        for (nth, &(index, name)) in missing.iter().enumerate() {
            let mut piece = file::begin_piece(context);
            source.piece(index, &mut piece)?;
            let piece = file::finish(piece).0;
            let bytes = piece.len() as u64;
            // Pieces are of about one size: better to see now that they do not all fit.
            let all = known + bytes.saturating_mul(missing.len() as u64) + rest as u64;
            if nth == 0 && all > self.budget
                || !files.make_room((bytes, self.budget), &keep).map_err(&io)?
            {
                return Ok(None);
            }
            file::write(&self.path.join(name.to_string()), &piece).map_err(&io)?;
            files.add_piece(name, bytes);
            if let Name::FullPiece(text) = name {
                files.remove_piece(Name::Piece(text)).map_err(&io)?;
            }
            written += bytes;
        }
        Ok(Some(written))
    }

    /// The longest saved proper beginning of `prompt` of more than `least` tokens. `check` tells
    /// whether a state can be used, and its tokens.
    fn find(
        &mut self,
        context: u64,
        (prompt, least): (&[u32], usize),
        check: &Check<'_>,
    ) -> io::Result<Found> {
        let _lock = self.lock_shared();
        let files = Files::list(&self.path, Depth::Names)?;
        let mut saved: HashMap<u64, Vec<Name>> = HashMap::new();
        for state in files.states.iter().filter(|state| state.text.context == context) {
            let name = Name::State(state.text, state.owner);
            saved.entry(state.text.tokens).or_default().push(name);
        }
        let mut found = Found::default();
        for end in ends(prompt, &saved).into_iter().rev().filter(|(len, _)| *len > least) {
            for &name in saved.get(&end.1).into_iter().flatten() {
                let usable = self.read(&files, (name, context), end.0).and_then(|state| {
                    let tokens = check(&state.0, &state.1).map_err(|error| error.to_string())?;
                    if tokens == prompt[..end.0] { Ok(state) } else { Err(OTHER.to_owned()) }
                });
                match usable {
                    Ok(state) => {
                        self.touch(name);
                        found.state = Some(state);
                        return Ok(found);
                    }
                    Err(reason) => {
                        let path = self.path.join(name.to_string());
                        self.unusable.insert(name);
                        found
                            .ignored
                            .push(format!("saved state {} ignored: {reason}", path.display()));
                    }
                }
            }
        }
        Ok(found)
    }

    /// A state of `len` tokens with its pieces, or why there is none.
    fn read(
        &mut self,
        files: &Files,
        (name, context): (Name, u64),
        len: usize,
    ) -> Result<(Vec<Piece>, Snapshot), String> {
        let expected = Expected { context, most: self.budget };
        let (header, snapshot) = file::read_state(&self.path.join(name.to_string()), expected)?;
        // Not more is read than such a text has.
        if header.len != len || header.pieces.len() != len / PIECE_TOKENS {
            return Err(OTHER.to_owned());
        }
        let mut pieces = Vec::new();
        for tokens in header.pieces {
            let name = files.piece_name(Text { context, tokens });
            let name = name.ok_or("a piece of it is not there")?;
            let piece = file::read_piece(&self.path.join(name.to_string()), expected);
            pieces.push(piece.map_err(|reason| {
                self.unusable.insert(name);
                format!("its piece {name} is unusable: {reason}")
            })?);
        }
        Ok((pieces, snapshot))
    }

    /// Notes that a state was wanted.
    fn touch(&self, name: Name) {
        let file = File::options().write(true).open(self.path.join(name.to_string()));
        // In a folder that cannot be written to nothing is removed, either.
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }

    fn lock_alone(&self) -> io::Result<File> {
        // Windows locks nothing that is open for appending only.
        let mut options = File::options();
        let lock = options.read(true).append(true).create(true).open(self.path.join(LOCK))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Keeps writers out; in a folder that nobody writes to there is nothing to lock.
    fn lock_shared(&self) -> Option<File> {
        let lock = File::open(self.path.join(LOCK)).ok()?;
        lock.lock_shared().ok()?;
        Some(lock)
    }

    fn io(&self) -> impl Fn(io::Error) -> FolderError + use<> {
        let path = self.path.clone();
        move |source| FolderError::Io { path: path.clone(), source }
    }

    /// What tells models and settings apart.
    fn context(&self, model: Fingerprint, more: &str) -> u64 {
        let mut print = self.settings;
        print.add(&model.to_bytes());
        print.add(more.as_bytes());
        print.number()
    }
}

const OTHER: &str = "it is of another text";

impl Prints {
    fn of(tokens: &[u32]) -> Self {
        let (mut print, mut pieces) = (Fingerprint::new(), Vec::new());
        for piece in tokens.chunks(PIECE_TOKENS) {
            print.add_tokens(piece);
            if piece.len() == PIECE_TOKENS {
                pieces.push(print.number());
            }
        }
        Self { pieces, all: print.number() }
    }

    fn texts(&self, context: u64) -> HashSet<Text> {
        self.pieces.iter().map(|&tokens| Text { context, tokens }).collect()
    }
}

/// The proper beginnings of `prompt` that are among `saved`: length and fingerprint, rising.
fn ends(prompt: &[u32], saved: &HashMap<u64, Vec<Name>>) -> Vec<(usize, u64)> {
    let mut print = Fingerprint::new();
    let proper = prompt.split_last().map_or(&[][..], |(_, proper)| proper);
    let prints = proper.iter().map(|&token| {
        print.add_tokens(&[token]);
        print.number()
    });
    (1..).zip(prints).filter(|(_, print)| saved.contains_key(print)).collect()
}

impl Source for Hit<Piece, Snapshot> {
    fn tokens(&self) -> Vec<u32> {
        let pieces = self.pieces.iter().flat_map(|piece| piece.tokens());
        pieces.chain(self.snapshot.tail_tokens()).copied().collect()
    }

    fn has_mtp(&self, index: usize) -> bool {
        self.pieces[index].has_mtp()
    }

    fn snapshot(&mut self, to: &mut Encoder) -> Result<(), Error> {
        to.snapshot(&self.snapshot);
        Ok(())
    }

    fn piece(&mut self, index: usize, to: &mut Encoder) -> Result<(), Error> {
        to.piece(&self.pieces[index]);
        Ok(())
    }
}
