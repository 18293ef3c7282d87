//! Saved states in a folder, so that they outlive the program: one file per snapshot, with its
//! pieces.
//!
//! A file appears under its name only when all of it is on the disk. It says which model, settings
//! and tokens it is of and carries a checksum; one that is cut, damaged or of another model is left
//! alone.

use super::{Inserted, Mark, Source, StateCache};
use crate::fingerprint::Fingerprint;
use crate::snapshot::{Decoder, Encoder};
use crate::{Engine, Piece, Snapshot};
use kernels::Backend;
use std::borrow::Borrow;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"TUFFST01";
const ENDING: &str = "state";

/// A folder of saved states.
#[derive(Clone, Debug)]
pub struct StateFolder {
    path: PathBuf,
    settings: Fingerprint,
}

/// What became of the files of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Files whose state is in the cache now.
    pub states: usize,
    /// One line about each file that was left alone.
    pub ignored: Vec<String>,
}

impl StateFolder {
    /// The folder at `path`, which is made if it is not there. `settings` is whatever decides about
    /// a state's bits besides model and device: instruction set, precision of activations.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: &Path, settings: &str) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let mut print = Fingerprint::new();
        print.add(settings.as_bytes());
        Ok(Self { path: path.to_owned(), settings: print })
    }

    /// Writes a state with the pieces before it; its file.
    ///
    /// # Errors
    /// Those of the file system; nothing is left under the file's name then.
    pub fn save<P: Borrow<Piece>>(&self, pieces: &[P], snapshot: &Snapshot) -> io::Result<PathBuf> {
        let mut encoder = Encoder(MAGIC.to_vec());
        encoder.0.extend_from_slice(&self.settings.to_bytes());
        encoder.number(pieces.len());
        pieces.iter().for_each(|piece| encoder.piece(piece.borrow()));
        encoder.snapshot(snapshot);
        let mut bytes = encoder.0;
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);

        let path = self.path.join(format!("{}.{ENDING}", snapshot.name()));
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = write(&unfinished, &bytes).and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written.and_then(|()| sync_folder(&self.path)).map(|()| path)
    }

    /// Puts every state of the folder that belongs to `engine` into `cache`, as far as there is
    /// room.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn load<B: Backend>(
        &self,
        engine: &Engine<B>,
        cache: &mut StateCache,
    ) -> io::Result<Loaded> {
        let mut loaded = Loaded::default();
        let entries = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
        paths.sort_unstable();
        for path in paths {
            let outcome = self.read(&path).and_then(|(pieces, snapshot)| {
                let tokens = engine.check_restore(&pieces, &snapshot).map_err(|e| e.to_string())?;
                let Ok(inserted) =
                    cache.insert(&tokens, Mark::Boundary, &mut FileContent { pieces, snapshot });
                match inserted {
                    Inserted::NoRoom => Err("the cache has no room for it".to_owned()),
                    Inserted::Kept | Inserted::Known => Ok(()),
                }
            });
            match outcome {
                Ok(()) => loaded.states += 1,
                Err(reason) => {
                    loaded
                        .ignored
                        .push(format!("saved state {} ignored: {reason}", path.display()));
                }
            }
        }
        Ok(loaded)
    }

    /// The state in a file, or why there is none.
    fn read(&self, path: &Path) -> Result<(Vec<Piece>, Snapshot), String> {
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        let cut = "it is cut or damaged";
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(cut)?;
        let rest = body.strip_prefix(MAGIC).ok_or("it is of another version, or no saved state")?;
        if checksum(body) != *sum {
            return Err(cut.to_owned());
        }
        let rest = rest.strip_prefix(&self.settings.to_bytes());
        let mut decoder = Decoder(rest.ok_or("it was made with other settings")?);
        let mut state = || {
            let pieces = decoder.list(Decoder::piece)?;
            let snapshot = decoder.snapshot()?;
            decoder.0.is_empty().then_some((pieces, snapshot))
        };
        state().ok_or_else(|| cut.to_owned())
    }
}

/// A file's content as the source of an entry.
struct FileContent {
    pieces: Vec<Piece>,
    snapshot: Snapshot,
}

impl Source<Piece, Snapshot> for FileContent {
    type Error = Infallible;

    fn snapshot(&mut self) -> Result<Snapshot, Infallible> {
        Ok(self.snapshot.clone())
    }

    fn piece(&mut self, index: usize) -> Result<Piece, Infallible> {
        Ok(self.pieces[index].clone())
    }

    fn improves(&self, index: usize, held: &Piece) -> bool {
        !held.has_mtp() && self.pieces.get(index).is_some_and(Piece::has_mtp)
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut print = Fingerprint::new();
    let (words, rest) = bytes.as_chunks::<4>();
    words.iter().for_each(|word| print.add_tokens(&[u32::from_le_bytes(*word)]));
    print.add(rest);
    print.to_bytes()
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a new name last. Only Unix lets a folder be opened for it.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
