//! What can go wrong when a model file is made from other weights.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gguf::TensorType;

/// Tensors named in a message before a count stands for the rest.
const NAMED: usize = 4;

/// Why no model file was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried, as in "cannot ... PATH".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The container refuses a file, read or to be written.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// A file of the output's name is there.
    #[error("{} exists; choose another name, or replace it with --force", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file of the name that an unfinished output has is there, without a journal.
    #[error(
        "{} is in the way, and no stopped run has left it; move it, or write over it with \
         --restart",
        .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The output would be written over what is read.
    #[error("{} would be written while it is read; choose another name for the output",
        .path.display())]
    OverInput {
        /// The file.
        path: PathBuf,
    },
    /// Another run writes the same output.
    #[error("another run is writing this file (it holds {}); let it end", .journal.display())]
    Busy {
        /// The journal that is locked.
        journal: PathBuf,
    },
    /// A stopped run with other inputs or formats has left its state.
    #[error(
        "{} belongs to a run with another input, other formats or another version of the program; \
         begin anew with --restart, or finish that run first",
        .journal.display()
    )]
    OtherRun {
        /// The journal.
        journal: PathBuf,
    },
    /// The journal is not what this program writes.
    #[error("line {line} of {} is damaged; begin anew with --restart", .journal.display())]
    Journal {
        /// The journal.
        journal: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The unfinished file is gone or has another length, though the journal says it was whole.
    #[error("{} should be there with {expected} bytes and is not; begin anew with --restart",
        .path.display())]
    Unfinished {
        /// The file.
        path: PathBuf,
        /// Bytes that it should have.
        expected: u64,
    },
    /// The disk is too full.
    #[error(
        "{needed} more bytes are needed in {} and {free} are free; make room, or write elsewhere",
        .folder.display()
    )]
    Space {
        /// The folder of the output.
        folder: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// No tensor has the role that was chosen.
    #[error("the model has no tensor for {choice:?}; `tuff inspect` lists those it has")]
    NoTensor {
        /// The role or group.
        choice: String,
    },
    /// A tensor that is to be encoded anew cannot be decoded.
    #[error("tensor {tensor:?} is {ty}, which cannot be decoded to be encoded anew")]
    Undecodable {
        /// The tensor.
        tensor: String,
        /// Its format.
        ty: TensorType,
    },
    /// The importance matrix is of no use.
    #[error(transparent)]
    Imatrix(#[from] crate::imatrix::ImatrixError),
    /// Rows that no whole number of blocks fits.
    #[error("{}", narrow(.0))]
    Narrow(Vec<Narrow>),
    /// A row that would take too much memory.
    #[error("tensor {tensor:?} has rows of {n_in} values, and at most {most} are supported")]
    LongRow {
        /// The tensor.
        tensor: String,
        /// Values per row.
        n_in: u64,
        /// The limit.
        most: u64,
    },
    /// Values that cannot be decoded or encoded.
    #[error("tensor {tensor:?}, row {row}: {source}")]
    Row {
        /// The tensor.
        tensor: String,
        /// The row, from 0, counted through all matrices of a stack.
        row: u64,
        /// What is wrong.
        source: quant::Error,
    },
    /// Stopped by the caller. What is done is kept for the next run.
    #[error("stopped with {done} of {total} bytes done; the same command goes on from there")]
    Stopped {
        /// Bytes that are done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// A tensor whose rows are no whole number of blocks of the format asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// The tensor.
    pub tensor: String,
    /// Its dimensions, the row length first.
    pub dims: Vec<u64>,
    /// The format asked for.
    pub ty: TensorType,
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Narrow { tensor, dims, ty } = self;
        let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
        write!(f, "{tensor} ({}) in {ty}", dims.join(" x "))?;
        write!(f, ", whose blocks have {}", ty.block_elements())
    }
}

fn narrow(all: &[Narrow]) -> String {
    let named: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(
        "a row must be a whole number of blocks, which it is not for {}{more}; formats with blocks \
         of 32 (q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4) or bf16 fit more widths, and \
         ROLE=keep leaves a role as it is",
        named.join("; ")
    )
}

/// An [`Error::Io`], for use with `map_err`.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}
