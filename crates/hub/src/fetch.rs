//! Fetching a model's files.

use crate::hash::Hash;
use crate::waiting::{self, Event};
use crate::{Checksum, Error, Folder, Listing, ModelName, Remote, RemoteFile, choose};
use fs4::fs_std::FileExt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Times that a transfer is taken up again in a row without a byte having come.
const TRIES: u32 = 5;
/// Kept free beside the files.
const SPARE: u64 = 64 << 20;
const BUFFER: usize = 1 << 20;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file that is being fetched; none while the server is asked what there is.
    pub file: &'a str,
    /// Bytes of all files that are there.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// A model that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The first of its files, which the model is opened by.
    pub path: PathBuf,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes that came over the network.
    pub transferred: u64,
}

/// Whoever is told of progress; may break off.
pub type Watch<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

/// Fetches a model, as far as it is not there.
///
/// # Errors
/// Whatever keeps it from being complete. What has come is kept, and the next call goes on from
/// there.
pub fn fetch(
    remote: &Remote,
    folder: &Folder,
    name: &ModelName,
    watch: &mut Watch<'_>,
) -> Result<Fetched, Error> {
    let listing = list(remote, name, watch)?;
    let paths: Vec<String> = listing.files.iter().map(|file| file.path.clone()).collect();
    let model = choose(name, &paths)?;
    let of = |path: &String| listing.files.iter().find(|file| file.path == *path);
    let files: Vec<&RemoteFile> = model.files.iter().filter_map(of).collect();
    if let Some(file) = files.iter().find(|file| file.checksum == Checksum::Missing) {
        return Err(no_checksum(file));
    }
    let contents = folder.contents(name);
    create(&contents)?;
    let total = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    let mut work =
        Work { remote, name, listing: &listing, contents, watch, done: 0, total, came: 0 };
    work.check_space(&files)?;
    let snapshot = folder.snapshot(name, &listing.commit);
    for file in &files {
        let content = work.file(file)?;
        link(&content, &snapshot, &file.path)?;
    }
    folder.note(name, &listing.commit)?;
    let path = snapshot.join(&files.first().ok_or_else(|| no_model(name))?.path);
    Ok(Fetched { path, bytes: total, transferred: work.came })
}

/// What a repository holds, unless the caller loses patience.
fn list(remote: &Remote, name: &ModelName, watch: &mut Watch<'_>) -> Result<Listing, Error> {
    let (asked, of) = (remote.clone(), name.clone());
    let answer = waiting::start(move |to| drop(to.send(asked.list(&of))))?;
    let progress = Progress { file: "", done: 0, total: 0 };
    let look = || if watch(progress).is_break() { Err(Error::Interrupted) } else { Ok(()) };
    waiting::next(&answer, look)?.unwrap_or_else(|| {
        let reason = "asking for the list of files failed".to_owned();
        Err(Error::Transport { url: name.to_string(), reason })
    })
}

fn no_checksum(file: &RemoteFile) -> Error {
    Error::NoChecksum { file: file.path.clone() }
}

fn no_model(name: &ModelName) -> Error {
    Error::NoModel { repo: name.repo.clone() }
}

/// A transfer.
struct Work<'a, 'w> {
    remote: &'a Remote,
    name: &'a ModelName,
    listing: &'a Listing,
    /// Where contents are kept, by their checksums.
    contents: PathBuf,
    watch: &'a mut Watch<'w>,
    /// Bytes of files that are complete, and of those that came over the network.
    done: u64,
    total: u64,
    came: u64,
}

impl Work<'_, '_> {
    fn check_space(&self, files: &[&RemoteFile]) -> Result<(), Error> {
        let there = |file: &&RemoteFile| {
            let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
            size(self.content(file)).max(size(self.part(file))).min(file.size)
        };
        let needed = self.total - files.iter().map(there).sum::<u64>().min(self.total);
        // Where nobody can tell, it shows soon enough.
        match fs4::available_space(&self.contents) {
            Ok(free) if needed > 0 && needed.saturating_add(SPARE) > free => {
                Err(Error::Space { folder: self.contents.clone(), needed, free })
            }
            _ => Ok(()),
        }
    }

    fn content(&self, file: &RemoteFile) -> PathBuf {
        self.contents.join(&file.content)
    }

    fn part(&self, file: &RemoteFile) -> PathBuf {
        self.contents.join(format!("{}.part", file.content))
    }

    fn tell(&mut self, file: &RemoteFile, bytes: u64) -> Result<(), Error> {
        let progress = Progress { file: &file.path, done: self.done + bytes, total: self.total };
        if (self.watch)(progress).is_break() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Makes a file's content be there; where it is.
    fn file(&mut self, file: &RemoteFile) -> Result<PathBuf, Error> {
        let content = self.content(file);
        if fs::metadata(&content).is_ok_and(|found| found.len() == file.size) {
            self.done += file.size;
            self.tell(file, 0)?;
            return Ok(content);
        }
        let path = self.part(file);
        let mut options = OpenOptions::new();
        let part = options.create(true).truncate(false).read(true).write(true).open(&path);
        let mut part = part.map_err(io("write", &path))?;
        if !FileExt::try_lock_exclusive(&part).map_err(io("lock", &path))? {
            return Err(Error::Busy { path });
        }
        let mut hash = Hash::of(file).ok_or_else(|| no_checksum(file))?;
        let mut there = self.known(file, &mut part, &mut hash, &path)?;
        let mut tries = 0;
        while there < file.size {
            let before = there;
            match self.transfer(file, &mut part, (&mut there, &mut hash), &path) {
                Err(error @ (Error::Transport { .. } | Error::Status { .. })) => {
                    tries = if there > before { 0 } else { tries + 1 };
                    if tries >= TRIES {
                        return Err(error);
                    }
                    self.tell(file, there)?;
                    sleep(Duration::from_millis(100 << tries));
                }
                other => other?,
            }
        }
        part.sync_all().map_err(io("write", &path))?;
        let found = hash.finish();
        if found != file.content {
            fs::remove_file(&path).map_err(io("remove", &path))?;
            let (file, wanted) = (file.path.clone(), file.content.clone());
            return Err(Error::Checksum { file, found, wanted });
        }
        fs::rename(&path, &content).map_err(io("rename", &path))?;
        self.done += file.size;
        Ok(content)
    }

    /// Reads what an earlier transfer left; its bytes.
    fn known(
        &mut self,
        file: &RemoteFile,
        part: &mut File,
        hash: &mut Hash,
        path: &Path,
    ) -> Result<u64, Error> {
        let mut buffer = vec![0; BUFFER];
        let mut there = 0;
        loop {
            let count = part.read(&mut buffer).map_err(io("read", path))?;
            there += count as u64;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            self.tell(file, there.min(file.size))?;
        }
        if there > file.size {
            // It belongs to something else.
            return restart(part, (hash, file), path);
        }
        Ok(there)
    }

    /// Writes what the server sends behind what is there.
    fn transfer(
        &mut self,
        file: &RemoteFile,
        part: &mut File,
        (there, hash): (&mut u64, &mut Hash),
        path: &Path,
    ) -> Result<(), Error> {
        let commit = &self.listing.commit;
        let events = waiting::read(self.remote, self.name, commit, file, *there)?;
        let cut = |reason: String| Error::Transport { url: file.path.clone(), reason };
        while let Some(event) = waiting::next(&events, || self.tell(file, *there))? {
            let bytes = match event {
                Event::From(from) if from == *there => continue,
                Event::From(_) => {
                    *there = restart(part, (hash, file), path)?;
                    continue;
                }
                Event::Bytes(bytes) => bytes,
                Event::Broken(error) => return Err(cut(error.to_string())),
                Event::Refused(error) => return Err(error),
            };
            if bytes.len() as u64 > file.size - *there {
                let reason = "the server sends more than the file's size".to_owned();
                return Err(Error::Answer { url: file.path.clone(), reason });
            }
            part.write_all(&bytes).map_err(io("write", path))?;
            hash.update(&bytes);
            *there += bytes.len() as u64;
            self.came += bytes.len() as u64;
            self.tell(file, *there)?;
        }
        if *there < file.size { Err(cut("the server broke off".to_owned())) } else { Ok(()) }
    }
}

/// Forgets what is there.
fn restart(
    part: &mut File,
    (hash, file): (&mut Hash, &RemoteFile),
    path: &Path,
) -> Result<u64, Error> {
    part.set_len(0).map_err(io("write", path))?;
    part.seek(SeekFrom::Start(0)).map_err(io("write", path))?;
    *hash = Hash::of(file).ok_or_else(|| no_checksum(file))?;
    Ok(0)
}

/// Gives a content its name in a snapshot, in place of whatever bears it.
fn link(content: &Path, snapshot: &Path, file: &str) -> Result<(), Error> {
    let path = snapshot.join(file);
    create(path.parent().unwrap_or(snapshot))?;
    if fs::symlink_metadata(&path).is_ok() {
        fs::remove_file(&path).map_err(io("replace", &path))?;
    }
    let linked = symbolic(content, &path, file);
    linked.or_else(|_| fs::hard_link(content, &path)).map_err(io("write", &path))
}

/// A relative link, so that the folder can be moved.
#[cfg(unix)]
fn symbolic(content: &Path, path: &Path, file: &str) -> std::io::Result<()> {
    let up = "../".repeat(file.split('/').count() + 1);
    let name = content.file_name().unwrap_or_default();
    std::os::unix::fs::symlink(Path::new(&up).join("blobs").join(name), path)
}

#[cfg(not(unix))]
fn symbolic(_: &Path, _: &Path, _: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

fn create(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(io("create", folder))
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}
