//! What is in the files of a folder, each with a checksum at its end, and how they are written: a
//! file gets its name when all of it is on the disk.

use super::names::UNFINISHED;
use crate::fingerprint::Fingerprint;
use crate::snapshot::{Decoder, Encoder};
use crate::{Piece, Snapshot};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const PIECE: &[u8; 8] = b"TUFFPC02";
const STATE: &[u8; 8] = b"TUFFST02";

const DAMAGED: &str = "it is cut or damaged";
const FOREIGN: &str = "it is of another version, or no saved state";

/// Whose files are read: of which model and settings, and how large one may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Of model and settings.
    pub(super) context: u64,
    /// A file never has more bytes.
    pub(super) most: u64,
}

/// What a state's file says before its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Tokens of the text.
    pub(super) len: usize,
    /// Fingerprints of the text up to the end of each of its pieces.
    pub(super) pieces: Vec<u64>,
}

/// A file of a piece in the making: the piece is to be appended.
pub(super) fn begin_piece(context: u64) -> Encoder {
    let mut encoder = Encoder(PIECE.to_vec());
    encoder.print(context);
    encoder
}

/// A file of a state in the making: the snapshot is to be appended.
pub(super) fn begin_state(context: u64, header: &Header) -> Encoder {
    let mut encoder = Encoder(STATE.to_vec());
    encoder.print(context);
    encoder.number(header.len);
    encoder.number(header.pieces.len());
    header.pieces.iter().for_each(|&print| encoder.print(print));
    finish(encoder)
}

/// Ends a file, or its header, with the checksum.
pub(super) fn finish(mut encoder: Encoder) -> Encoder {
    let sum = checksum(&encoder.0);
    encoder.0.extend_from_slice(&sum);
    encoder
}

/// The piece in a file, or why there is none.
pub(super) fn read_piece(path: &Path, expected: Expected) -> Result<Piece, String> {
    let bytes = read(path, PIECE, expected)?;
    let mut decoder = Decoder(&bytes);
    let piece = decoder.piece().filter(|_| decoder.0.is_empty());
    piece.ok_or_else(|| DAMAGED.to_owned())
}

/// The header and the snapshot in a file, or why there are none.
pub(super) fn read_state(path: &Path, expected: Expected) -> Result<(Header, Snapshot), String> {
    let bytes = read(path, STATE, expected)?;
    let mut decoder = Decoder(&bytes);
    let mut state = || {
        let header = header(&mut decoder)?;
        // Its own checksum is for those who read nothing else.
        decoder.print()?;
        let snapshot = decoder.snapshot()?;
        decoder.0.is_empty().then_some((header, snapshot))
    };
    state().ok_or_else(|| DAMAGED.to_owned())
}

/// The header of a state's file alone; `None` if it cannot be told.
pub(super) fn read_header(path: &Path) -> Option<Header> {
    const FIXED: usize = 32;
    let mut file = File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut head = vec![0; FIXED];
    file.read_exact(&mut head).ok()?;
    let count = Decoder(head.last_chunk::<8>()?).number()?;
    let rest = count.checked_mul(8)?.checked_add(8).filter(|rest| (*rest as u64) < bytes)?;
    head.resize(FIXED + rest, 0);
    file.read_exact(&mut head[FIXED..]).ok()?;
    let (body, sum) = head.split_last_chunk::<8>()?;
    let mut decoder = Decoder(body.strip_prefix(STATE)?);
    decoder.print()?;
    header(&mut decoder).filter(|_| checksum(body) == *sum)
}

fn header(decoder: &mut Decoder<'_>) -> Option<Header> {
    Some(Header { len: decoder.number()?, pieces: decoder.list(Decoder::print)? })
}

/// The content of a file between what it begins with and its checksum.
fn read(path: &Path, magic: &[u8; 8], expected: Expected) -> Result<Vec<u8>, String> {
    let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > expected.most {
        return Err(format!("it has {bytes} bytes, more than all files may have"));
    }
    let mut bytes = fs::read(path).map_err(|error| error.to_string())?;
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(DAMAGED)?;
    let rest = body.strip_prefix(magic).ok_or(FOREIGN)?;
    if checksum(body) != *sum {
        return Err(DAMAGED.to_owned());
    }
    let context = Decoder(rest).print().ok_or(DAMAGED)?;
    if context != expected.context {
        return Err("it was made with another model or other settings".to_owned());
    }
    bytes.truncate(body.len());
    bytes.drain(..magic.len() + 8);
    Ok(bytes)
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut print = Fingerprint::new();
    let (words, rest) = bytes.as_chunks::<4>();
    words.iter().for_each(|word| print.add_tokens(&[u32::from_le_bytes(*word)]));
    print.add(rest);
    print.to_bytes()
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = unfinished(path);
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// The name that a file has while it is written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

/// Makes new names last. Only Unix lets a folder be opened for it.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
