//! The journal of a run: what is done and on the disk, a line each, so that a run that was
//! stopped can be taken up.
//!
//! The first line names the run: a hash of everything that its result depends on. Then comes a
//! line for each finished piece, `TENSOR ROW CHECKSUM` by number, and `complete` once all are
//! there and only the files' names are left to be given. A last line without its end was being
//! written when the run died, and is dropped.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::pieces::Piece;
use super::{Error, io_error};

const TITLE: &str = "tuff-journal-1";
const COMPLETE: &str = "complete";
/// The journal of a terabyte has about a million bytes; nothing reads more.
const MAX_BYTES: u64 = 1 << 26;

/// An open, locked journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

/// What a journal says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Checksums by tensor and first row.
    pub(crate) done: HashMap<(usize, u64), u128>,
    /// Only the names are left to be given.
    pub(crate) complete: bool,
}

impl Journal {
    /// Opens or creates the journal and locks it against other runs.
    pub(crate) fn open(path: &Path) -> Result<Journal, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(io_error("write", path))?;
        // A file system without locks can do without this one.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Error::Busy { journal: path.to_owned() });
        }
        Ok(Journal { path: path.to_owned(), file })
    }

    /// Reads what an earlier run `key` has done; None for a new journal.
    pub(crate) fn read(&mut self, key: u128) -> Result<Option<Record>, Error> {
        let mut bytes = Vec::new();
        self.file.rewind().map_err(io_error("read", &self.path))?;
        let mut limited = (&self.file).take(MAX_BYTES);
        limited.read_to_end(&mut bytes).map_err(io_error("read", &self.path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let damaged = |line| Error::Journal { journal: self.path.clone(), line };
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|_| damaged(1))?;
        let mut lines = text.lines().zip(1..);
        let Some((title, _)) = lines.next() else {
            // Nothing, or the beginning of a title; a file of somebody else is left alone.
            let ours = title_of(key).as_bytes().starts_with(&bytes);
            return if ours { Ok(None) } else { Err(damaged(1)) };
        };
        if title != title_of(key) {
            return Err(match title.starts_with(TITLE) {
                true => Error::OtherRun { journal: self.path.clone() },
                false => damaged(1),
            });
        }
        let mut record = Record::default();
        for (line, number) in lines {
            if record.complete || !record.add(line) {
                return Err(damaged(number));
            }
        }
        let end = whole as u64;
        self.file.set_len(end).map_err(io_error("write", &self.path))?;
        self.file.seek(SeekFrom::Start(end)).map_err(io_error("write", &self.path))?;
        Ok(Some(record))
    }

    /// Begins the journal of the run `key`; what was there is forgotten.
    pub(crate) fn begin(&mut self, key: u128) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "write", path: self.path.clone(), source };
        self.file.set_len(0).map_err(failed)?;
        self.file.rewind().map_err(failed)?;
        self.append(&format!("{}\n", title_of(key)))
    }

    /// Adds finished pieces, whose bytes are on the disk.
    pub(crate) fn add(&mut self, finished: &[(Piece, u128)]) -> Result<(), Error> {
        let line = |(piece, sum): &(Piece, u128)| {
            format!("{} {} {sum:032x}\n", piece.tensor, piece.rows.start)
        };
        self.append(&finished.iter().map(line).collect::<String>())
    }

    /// Notes that everything is done but the names.
    pub(crate) fn complete(&mut self) -> Result<(), Error> {
        self.append(&format!("{COMPLETE}\n"))
    }

    fn append(&mut self, text: &str) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "write", path: self.path.clone(), source };
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }

    /// Removes the file.
    pub(crate) fn remove(self) -> Result<(), Error> {
        std::fs::remove_file(&self.path).map_err(io_error("remove", &self.path))
    }
}

impl Record {
    /// Takes in a line; false if it is none.
    fn add(&mut self, line: &str) -> bool {
        if line == COMPLETE {
            self.complete = true;
            return true;
        }
        let mut words = line.split(' ');
        let fields = (words.next(), words.next(), words.next(), words.next());
        let (Some(tensor), Some(row), Some(sum), None) = fields else { return false };
        let (Ok(tensor), Ok(row)) = (tensor.parse(), row.parse()) else { return false };
        let (32, Ok(sum)) = (sum.len(), u128::from_str_radix(sum, 16)) else { return false };
        self.done.insert((tensor, row), sum);
        true
    }
}

fn title_of(key: u128) -> String {
    format!("{TITLE} {key:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(text: &str) -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf.journal");
        std::fs::write(&path, text).unwrap();
        let journal = Journal::open(&path).unwrap();
        (folder, journal)
    }

    fn piece(tensor: usize, row: u64) -> Piece {
        Piece { tensor, rows: row..row + 1 }
    }

    #[test]
    fn what_is_added_is_read() {
        let (_folder, mut journal) = journal("");
        assert_eq!(journal.read(7).unwrap(), None);
        journal.begin(7).unwrap();
        journal.add(&[(piece(0, 0), 1), (piece(3, 64), u128::MAX)]).unwrap();
        let done = HashMap::from([((0, 0), 1), ((3, 64), u128::MAX)]);
        assert_eq!(journal.read(7).unwrap(), Some(Record { done, complete: false }));
        journal.complete().unwrap();
        assert!(journal.read(7).unwrap().unwrap().complete);
        assert!(matches!(journal.read(8), Err(Error::OtherRun { .. })));
    }

    #[test]
    fn a_line_without_its_end_is_dropped_and_written_over() {
        let sum = format!("{:032x}", 5);
        let (_folder, mut journal) = journal(&format!("{}\n0 0 {sum}\n1 0 {sum}", title_of(7)));
        assert_eq!(journal.read(7).unwrap().unwrap().done, HashMap::from([((0, 0), 5)]));
        journal.add(&[(piece(2, 9), 6)]).unwrap();
        let done = HashMap::from([((0, 0), 5), ((2, 9), 6)]);
        assert_eq!(journal.read(7).unwrap().unwrap().done, done);
    }

    #[test]
    fn damage_is_named_by_line() {
        let good = title_of(7);
        let cases = [
            ("something else\n".to_owned(), 1),
            ("something else".to_owned(), 1),
            ("\u{fffd}\n".to_owned(), 1),
            (format!("{good}\n0 0\n"), 2),
            (format!("{good}\n0 0 12\n"), 2),
            (format!("{good}\n0 -1 {:032x}\n", 1), 2),
            (format!("{good}\n0 0 {:032x} 4\n", 1), 2),
            (format!("{good}\ncomplete\n0 0 {:032x}\n", 1), 3),
        ];
        for (text, expected) in cases {
            let (_folder, mut journal) = journal(&text);
            let error = journal.read(7).unwrap_err();
            assert!(matches!(error, Error::Journal { line, .. } if line == expected), "{text:?}");
        }
    }

    #[test]
    fn a_second_run_is_told_to_wait() {
        let (folder, _journal) = journal("");
        let second = Journal::open(&folder.path().join("m.gguf.journal"));
        assert!(matches!(second, Err(Error::Busy { .. })));
    }
}
