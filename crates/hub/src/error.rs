//! What can go wrong between here and the hub.

use std::io;
use std::path::PathBuf;

/// Why a model cannot be found or fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No name of a model.
    #[error("{name:?} is no model of a hub; write OWNER/REPO or OWNER/REPO:QUANT")]
    Name {
        /// What was given.
        name: String,
    },
    /// No file of the repository is what was asked for, or several are.
    #[error("{repo}: {reason}; there are: {}", list(.there))]
    Choice {
        /// The repository.
        repo: String,
        /// What is wrong.
        reason: String,
        /// What can be chosen.
        there: Vec<String>,
    },
    /// The repository has no model file.
    #[error("{repo} has no GGUF file; name a repository that has")]
    NoModel {
        /// The repository.
        repo: String,
    },
    /// The server does not let us in.
    #[error(
        "{url}: the server answers {status}: the repository does not exist, is private or gated; \
         set HF_TOKEN to a token that may read it"
    )]
    Denied {
        /// What was asked for.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// There is no such thing on the server.
    #[error("{url}: not found; check the name")]
    NotFound {
        /// What was asked for.
        url: String,
    },
    /// The server answers with something else.
    #[error("{url}: the server answers {status}; try again later")]
    Status {
        /// What was asked for.
        url: String,
        /// The status code.
        status: u16,
    },
    /// The server cannot be reached, or went away.
    #[error("{url}: {reason}; try again: what has come is kept")]
    Transport {
        /// What was asked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server's answer makes no sense, or is not to be trusted.
    #[error("{url}: {reason}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What came is not what was promised.
    #[error("{file}: the checksum is {found}, not {wanted}; the file was removed, fetch it again")]
    Checksum {
        /// The file on the server.
        file: String,
        /// Checksum of what came.
        found: String,
        /// Checksum as the server has it.
        wanted: String,
    },
    /// What would come could not be checked.
    #[error("{file}: the server names no checksum, so the file cannot be checked; use another hub")]
    NoChecksum {
        /// The file on the server.
        file: String,
    },
    /// The disk is too full.
    #[error("{}: {needed} bytes are needed, {free} are free; make room or set HF_HOME", .folder.display())]
    Space {
        /// Where it was to be written.
        folder: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Another program is fetching the same file.
    #[error("{}: another program is fetching this file; wait for it", .path.display())]
    Busy {
        /// The file that it writes.
        path: PathBuf,
    },
    /// Not here, and the network is not to be asked.
    #[error("{name} was not fetched yet; run `tuff pull {name}` without --offline")]
    Offline {
        /// The model.
        name: String,
    },
    /// There is no folder for the cache.
    #[error("no home folder; set HF_HOME to a folder for models")]
    NoHome,
    /// The system gives no thread.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The system's answer.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
