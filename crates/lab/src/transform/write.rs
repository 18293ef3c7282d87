//! Writing a target from its source: new or taken up, piece by piece, and the names at the end.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::journal::{Journal, Record};
use super::partial::{self, Partials, folder_of, journal_path, partial_path};
use super::pieces::{Flow, Piece, pieces};
use super::target::Target;
use super::work::{self, RowSource};
use super::{Error, io_error};

/// Whether existing files are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// They are an error.
    Refuse,
    /// They are replaced once the new ones are complete.
    Replace,
}

/// Whether the state of a stopped run is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// If there is one.
    IfPossible,
    /// It is forgotten.
    Restart,
}

/// How a target is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What happens to existing files.
    pub overwrite: Overwrite,
    /// What happens to the state of a stopped run.
    pub resume: Resume,
    /// Threads that encode, at least 1.
    pub threads: usize,
    /// Bytes that are journalled at a time, about: what a stop can lose.
    pub piece_bytes: u64,
    /// Files that are read, which must not be written.
    pub inputs: Vec<PathBuf>,
}

impl Settings {
    /// Bytes that are journalled at a time unless there is a reason for another number.
    pub const PIECE_BYTES: u64 = 64 << 20;
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pieces of an earlier run are compared with their checksums.
    Checking,
    /// Pieces are made.
    Writing,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes done in this stage.
    pub done: u64,
    /// Bytes of the stage.
    pub total: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of tensors that an earlier run had written.
    pub resumed: u64,
    /// Bytes among an earlier run's that did not have their checksum and were made again.
    pub repaired: u64,
    /// Bytes of all tensors.
    pub total: u64,
}

/// Finds at once what [`write()`] would refuse without having read a weight: names that are taken,
/// and the lack of room for a run from the beginning.
///
/// # Errors
/// [`Error::Exists`], [`Error::Foreign`], [`Error::OverInput`], [`Error::Space`].
pub fn check(target: &Target, settings: &Settings) -> Result<(), Error> {
    check_inputs(target, &settings.inputs)?;
    if journal_path(target).exists() {
        return Ok(());
    }
    check_existing(target, settings.overwrite)?;
    // Without a journal such a file is not of this program.
    let partials: Vec<PathBuf> = target.paths().map(partial_path).collect();
    let there = partials.into_iter().find(|path| path.symlink_metadata().is_ok());
    match there.filter(|_| settings.resume == Resume::IfPossible) {
        Some(path) => Err(Error::Foreign { path }),
        None => check_space(target, target.file_bytes()),
    }
}

/// Writes the target. `watch` hears of the progress after every block and may stop the run.
///
/// # Errors
/// As [`check`]; [`Error::Busy`], [`Error::OtherRun`], [`Error::Journal`], [`Error::Unfinished`]
/// before anything is written; [`Error::Stopped`], [`Error::Io`] and what the source reports later
/// on. The state is then kept beside the target, and a run with the same target and source goes on
/// from there.
pub fn write(
    target: &Target,
    source: &dyn RowSource,
    settings: &Settings,
    watch: &mut dyn FnMut(Progress) -> Flow,
) -> Result<Outcome, Error> {
    // Refused before a file is left behind.
    check(target, settings)?;
    let mut journal = Journal::open(&journal_path(target))?;
    let key = key(target, source, settings.piece_bytes);
    let record = match settings.resume {
        Resume::IfPossible => journal.read(key)?,
        Resume::Restart => None,
    };
    let total = target.tensor_bytes().sum();
    if record.as_ref().is_some_and(|record| record.complete) {
        partial::commit(target)?;
        journal.remove()?;
        return Ok(Outcome { resumed: total, repaired: 0, total });
    }
    check_existing(target, settings.overwrite)?;
    let all = pieces(target, settings.piece_bytes);
    let mut run = match record {
        Some(record) => Run::take_up(target, journal, &all, &record, watch)?,
        None => Run::begin(target, journal, key)?,
    };
    check_space(target, total - run.done)?;
    let outcome = Outcome { resumed: run.done, repaired: run.repaired, total };
    run.write_all(&all, source, settings.threads, watch)?;
    check_existing(target, settings.overwrite)?;
    run.finish()?;
    Ok(outcome)
}

/// The names that a run writes to, other than the target's own.
fn check_inputs(target: &Target, inputs: &[PathBuf]) -> Result<(), Error> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inputs: Vec<PathBuf> = inputs.iter().map(|path| real(path)).collect();
    let written = target.paths().flat_map(|path| [path.to_owned(), partial_path(path)]);
    for path in written.chain([journal_path(target)]) {
        if inputs.contains(&real(&path)) {
            return Err(Error::OverInput { path });
        }
    }
    Ok(())
}

fn check_existing(target: &Target, overwrite: Overwrite) -> Result<(), Error> {
    let there = |path: &&Path| path.symlink_metadata().is_ok();
    match target.paths().find(there).filter(|_| overwrite == Overwrite::Refuse) {
        Some(path) => Err(Error::Exists { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// Compares with what the system says is free; a system that says nothing is believed.
fn check_space(target: &Target, needed: u64) -> Result<(), Error> {
    let Some(folder) = target.paths().next().map(folder_of) else { return Ok(()) };
    std::fs::metadata(folder).map_err(io_error("write to", folder))?;
    match fs4::available_space(folder) {
        Ok(free) if free < needed => Err(Error::Space { folder: folder.to_owned(), needed, free }),
        _ => Ok(()),
    }
}

/// A hash of everything that the bytes written depend on.
fn key(target: &Target, source: &dyn RowSource, piece_bytes: u64) -> u128 {
    let mut hash = Xxh3::new();
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(&piece_bytes.to_le_bytes());
    add(&source.identity());
    for part in &target.parts {
        add(&part.header);
    }
    for place in &target.places {
        add(&[u8::from(place.tensor.encoded)]);
    }
    hash.digest128()
}

/// A run under way.
struct Run<'a> {
    target: &'a Target,
    journal: Journal,
    files: Partials,
    /// By piece.
    finished: Vec<bool>,
    /// Finished pieces that the journal does not have yet.
    pending: Vec<(Piece, u128)>,
    pending_bytes: u64,
    done: u64,
    repaired: u64,
}

impl<'a> Run<'a> {
    fn begin(target: &'a Target, mut journal: Journal, key: u128) -> Result<Run<'a>, Error> {
        // In this order: a journal must never speak of another run's files.
        journal.begin(key)?;
        let files = Partials::create(target)?;
        Ok(Run::new(target, journal, files))
    }

    fn new(target: &'a Target, journal: Journal, files: Partials) -> Run<'a> {
        let (finished, pending) = (Vec::new(), Vec::new());
        Run { target, journal, files, finished, pending, pending_bytes: 0, done: 0, repaired: 0 }
    }

    fn take_up(
        target: &'a Target,
        journal: Journal,
        all: &[Piece],
        record: &Record,
        watch: &mut dyn FnMut(Progress) -> Flow,
    ) -> Result<Run<'a>, Error> {
        let files = match record.done.is_empty() {
            true => Partials::create(target)?,
            false => Partials::resume(target)?,
        };
        let mut run = Run::new(target, journal, files);
        let noted = |piece: &Piece| record.done.get(&(piece.tensor, piece.rows.start)).copied();
        let bytes = |piece: &Piece| piece.span(target).1;
        let total = all.iter().filter(|piece| noted(piece).is_some()).map(bytes).sum();
        let mut checked = 0;
        for piece in all {
            let Some(expected) = noted(piece) else {
                run.finished.push(false);
                continue;
            };
            let intact = run.files.checksum(target, piece)? == expected;
            run.finished.push(intact);
            checked += bytes(piece);
            *(if intact { &mut run.done } else { &mut run.repaired }) += bytes(piece);
            if watch(Progress { stage: Stage::Checking, done: checked, total }) == Flow::Stop {
                let total = target.tensor_bytes().sum();
                return Err(Error::Stopped { done: run.done, total });
            }
        }
        Ok(run)
    }

    fn write_all(
        &mut self,
        all: &[Piece],
        source: &dyn RowSource,
        threads: usize,
        watch: &mut dyn FnMut(Progress) -> Flow,
    ) -> Result<(), Error> {
        self.finished.resize(all.len(), false);
        let total = self.target.tensor_bytes().sum();
        for (number, piece) in all.iter().enumerate() {
            if self.finished[number] {
                continue;
            }
            let made = self.make(piece, source, threads, &mut |done| {
                watch(Progress { stage: Stage::Writing, done, total })
            });
            match made {
                Ok(Some(sum)) => self.note(piece, sum)?,
                Ok(None) => {
                    self.flush()?;
                    return Err(Error::Stopped { done: self.done, total });
                }
                Err(error) => {
                    // The error at hand says more than a failure to keep what came before it.
                    let _ = self.flush();
                    return Err(error);
                }
            }
        }
        self.flush()
    }

    /// Writes a piece; its checksum, or None if `watch` stopped it.
    fn make(
        &mut self,
        piece: &Piece,
        source: &dyn RowSource,
        threads: usize,
        watch: &mut dyn FnMut(u64) -> Flow,
    ) -> Result<Option<u128>, Error> {
        let (start, _) = piece.span(self.target);
        let part = self.target.places[piece.tensor].part;
        let (mut sum, mut written) = (Xxh3::new(), 0);
        let flow = work::fill(self.target, piece, source, threads, |bytes| {
            self.files.write_at(part, start + written, bytes)?;
            sum.update(bytes);
            written += bytes.len() as u64;
            Ok(watch(self.done + written))
        })?;
        Ok((flow == Flow::Continue).then(|| sum.digest128()))
    }

    fn note(&mut self, piece: &Piece, sum: u128) -> Result<(), Error> {
        let bytes = piece.span(self.target).1;
        self.done += bytes;
        self.pending_bytes += bytes;
        self.pending.push((piece.clone(), sum));
        if self.pending_bytes >= Settings::PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Brings what is done onto the disk, and then into the journal.
    fn flush(&mut self) -> Result<(), Error> {
        self.files.sync()?;
        self.journal.add(&self.pending)?;
        self.pending.clear();
        self.pending_bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        self.journal.complete()?;
        drop(self.files);
        partial::commit(self.target)?;
        self.journal.remove()
    }
}
