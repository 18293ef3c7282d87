//! Waiting for a server without being deaf: what may block runs on a thread of its own, and whoever
//! waits for it looks around several times a second.

use crate::remote::Part;
use crate::{Error, ModelName, Remote, RemoteFile};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Time between two looks around.
const LOOK: Duration = Duration::from_millis(200);
/// Parts of a file that wait to be written, and bytes of each at most.
const AHEAD: usize = 8;
const BUFFER: usize = 256 << 10;

/// What comes of a file.
pub(crate) enum Event {
    /// First: the byte from which on it comes.
    From(u64),
    /// The next bytes.
    Bytes(Vec<u8>),
    /// The connection broke.
    Broken(io::Error),
    /// The server cannot be asked.
    Refused(Error),
}

/// Runs `work`, which is given where its results go.
pub(crate) fn start<T: Send + 'static>(
    work: impl FnOnce(&SyncSender<T>) + Send + 'static,
) -> Result<Receiver<T>, Error> {
    let (sender, receiver) = sync_channel(AHEAD);
    let started = Builder::new().name("hub".to_owned()).spawn(move || work(&sender));
    started.map_err(|source| Error::Thread { source })?;
    Ok(receiver)
}

/// The next result, `None` behind the last one; calls `look` while there is none.
pub(crate) fn next<T>(
    results: &Receiver<T>,
    mut look: impl FnMut() -> Result<(), Error>,
) -> Result<Option<T>, Error> {
    loop {
        match results.recv_timeout(LOOK) {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Timeout) => look()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Reads a file from byte `from` on. It ends at the next read once nobody listens any more.
pub(crate) fn read(
    remote: &Remote,
    name: &ModelName,
    commit: &str,
    file: &RemoteFile,
    from: u64,
) -> Result<Receiver<Event>, Error> {
    let (remote, name, commit) = (remote.clone(), name.clone(), commit.to_owned());
    let file = file.clone();
    start(move |to| {
        let Part { from, mut body } = match remote.open(&name, &commit, &file, from) {
            Ok(part) => part,
            Err(error) => return drop(to.send(Event::Refused(error))),
        };
        let mut gone = to.send(Event::From(from)).is_err();
        let mut buffer = vec![0; BUFFER];
        while !gone {
            gone = match body.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => to.send(Event::Bytes(buffer[..count].to_vec())).is_err(),
                Err(error) => return drop(to.send(Event::Broken(error))),
            };
        }
    })
}
