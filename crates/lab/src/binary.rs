//! Files of measurements: little-endian, with checksums, and read as if strangers had written them.
//!
//! Every such file begins with eight bytes that say what it is and a version. Nothing is allocated
//! by a number of the file that the bytes which are there do not justify.

use std::fmt::Display;
use std::io::{self, Read, Write};

/// Bytes of a text in a file: a model's name and settings.
const MOST_TEXT: u32 = 4096;

/// Why a file cannot be used; the caller knows its name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system's answer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins otherwise.
    #[error("this is no file of {what}; name one that was written by `{by}`")]
    Foreign {
        /// What was expected in it.
        what: &'static str,
        /// The command that writes such files.
        by: &'static str,
    },
    /// Written by another version of the format.
    #[error("version {found} of the format is not known here, only {known}; write the file again")]
    Version {
        /// Of the file.
        found: u32,
        /// Of this program.
        known: u32,
    },
    /// It ends too early.
    #[error("the file ends at byte {at}, in the middle of {what}; {advice}")]
    Cut {
        /// Where it ends.
        at: u64,
        /// What ought to go on there.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A number that cannot be.
    #[error("{what} is {found} before byte {at}; the file is damaged, write it again")]
    Bad {
        /// The number.
        what: &'static str,
        /// Its value.
        found: String,
        /// Where it ends.
        at: u64,
    },
    /// The bytes are not those that were written.
    #[error("the checksum of {what} at byte {at} is wrong; the file is damaged, write it again")]
    Damaged {
        /// The part of the file.
        what: &'static str,
        /// Where its checksum ends.
        at: u64,
    },
    /// More bytes than there should be.
    #[error("the file goes on after its end at byte {at}; it is damaged, write it again")]
    Longer {
        /// The end.
        at: u64,
    },
}

/// What a kind of file begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: &'static [u8; 8],
    pub(crate) version: u32,
    /// For messages: "no file of ...".
    pub(crate) what: &'static str,
    /// The command that writes it.
    pub(crate) by: &'static str,
    /// What to do about one that is cut.
    pub(crate) if_cut: &'static str,
}

/// FNV-1a over 64 bits: finds accidents, not forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum(u64);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// Writes numbers and adds up their checksum.
#[derive(Debug)]
pub(crate) struct SumWriter<W> {
    inner: W,
    sum: Checksum,
}

impl<W: Write> SumWriter<W> {
    /// Goes on from the checksum of what is already there.
    pub(crate) fn resume(inner: W, sum: Checksum) -> Self {
        Self { inner, sum }
    }

    /// Begins a file.
    pub(crate) fn begin(inner: W, kind: &Kind) -> io::Result<Self> {
        let mut writer = Self::resume(inner, Checksum::new());
        writer.bytes(kind.magic)?;
        writer.u32(kind.version)?;
        Ok(writer)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.add(bytes);
        self.inner.write_all(bytes)
    }

    pub(crate) fn u32(&mut self, number: u32) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn f32(&mut self, number: f32) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn f64(&mut self, number: f64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    /// A short text, after its length.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.u32(text.len() as u32)?;
        self.bytes(text.as_bytes())
    }

    /// Seven bits a byte, the lower ones first.
    pub(crate) fn varint(&mut self, mut number: u32) -> io::Result<()> {
        while number >= 0x80 {
            self.bytes(&[number as u8 | 0x80])?;
            number >>= 7;
        }
        self.bytes(&[number as u8])
    }

    /// Writes the checksum of everything before it, and hands on what is written.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        self.u64(self.sum.value())?;
        self.inner.flush()
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

/// Reads numbers, knows where it is and adds up the checksum.
#[derive(Debug)]
pub(crate) struct SumReader<R> {
    inner: R,
    sum: Checksum,
    at: u64,
    /// Bytes of the file.
    len: u64,
    if_cut: &'static str,
}

impl<R: Read> SumReader<R> {
    /// Begins to read a file of `len` bytes.
    pub(crate) fn begin(inner: R, len: u64, kind: &Kind) -> Result<Self, FileError> {
        let mut reader = Self { inner, sum: Checksum::new(), at: 0, len, if_cut: kind.if_cut };
        let foreign = || FileError::Foreign { what: kind.what, by: kind.by };
        let mut magic = [0; 8];
        if len < 12 {
            return Err(foreign());
        }
        reader.bytes(&mut magic, "its beginning")?;
        if &magic != kind.magic {
            return Err(foreign());
        }
        let (found, known) = (reader.u32("its version")?, kind.version);
        if found == known { Ok(reader) } else { Err(FileError::Version { found, known }) }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn left(&self) -> u64 {
        self.len - self.at
    }

    /// The checksum so far.
    pub(crate) fn sum(&self) -> Checksum {
        self.sum
    }

    pub(crate) fn bytes(&mut self, out: &mut [u8], what: &'static str) -> Result<(), FileError> {
        self.expect(out.len() as u64, what)?;
        self.inner.read_exact(out)?;
        self.at += out.len() as u64;
        self.sum.add(out);
        Ok(())
    }

    /// Fails unless so many bytes are left: to be asked before memory is taken for them.
    pub(crate) fn expect(&self, bytes: u64, what: &'static str) -> Result<(), FileError> {
        let advice = self.if_cut;
        if bytes <= self.left() {
            Ok(())
        } else {
            Err(FileError::Cut { at: self.len, what, advice })
        }
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, FileError> {
        let mut bytes = [0; 4];
        self.bytes(&mut bytes, what).map(|()| u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, FileError> {
        let mut bytes = [0; 8];
        self.bytes(&mut bytes, what).map(|()| u64::from_le_bytes(bytes))
    }

    /// A finite number.
    pub(crate) fn f32(&mut self, what: &'static str) -> Result<f32, FileError> {
        let number = f32::from_bits(self.u32(what)?);
        if number.is_finite() { Ok(number) } else { Err(self.bad(what, &number)) }
    }

    /// A finite number.
    pub(crate) fn f64(&mut self, what: &'static str) -> Result<f64, FileError> {
        let number = f64::from_bits(self.u64(what)?);
        if number.is_finite() { Ok(number) } else { Err(self.bad(what, &number)) }
    }

    /// A short text, after its length.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, FileError> {
        let len = self.u32(what)?;
        if len > MOST_TEXT {
            return Err(self.bad(what, &len));
        }
        let mut bytes = vec![0; len as usize];
        self.bytes(&mut bytes, what)?;
        String::from_utf8(bytes).map_err(|_| self.bad(what, &"not UTF-8"))
    }

    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u32, FileError> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let mut byte = [0];
            self.bytes(&mut byte, what)?;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return u32::try_from(number).map_err(|_| self.bad(what, &number));
            }
        }
        Err(self.bad(what, &"too long"))
    }

    /// Reads a checksum and compares it with that of everything before it.
    pub(crate) fn check_seal(&mut self, what: &'static str) -> Result<(), FileError> {
        let expected = self.sum.value();
        let found = self.u64(what)?;
        if found == expected { Ok(()) } else { Err(FileError::Damaged { what, at: self.at }) }
    }

    /// Fails unless everything was read.
    pub(crate) fn check_end(&self) -> Result<(), FileError> {
        if self.left() == 0 { Ok(()) } else { Err(FileError::Longer { at: self.at }) }
    }

    /// A number that cannot be.
    pub(crate) fn bad(&self, what: &'static str, found: &dyn Display) -> FileError {
        FileError::Bad { what, found: found.to_string(), at: self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        magic: b"TUFFTEST",
        version: 3,
        what: "tests",
        by: "cargo test",
        if_cut: "write it again",
    };

    fn written() -> Vec<u8> {
        let mut writer = SumWriter::begin(Vec::new(), &KIND).unwrap();
        for number in [0, 127, 128, 300, u32::MAX] {
            writer.varint(number).unwrap();
        }
        writer.f64(-0.5).unwrap();
        writer.seal().unwrap();
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u32>, FileError> {
        let mut reader = SumReader::begin(bytes, bytes.len() as u64, &KIND)?;
        let numbers = (0..5).map(|_| reader.varint("a number")).collect::<Result<_, _>>()?;
        assert_eq!(reader.f64("a fraction")?, -0.5);
        reader.check_seal("all of it")?;
        reader.check_end()?;
        Ok(numbers)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&written()).unwrap(), [0, 127, 128, 300, u32::MAX]);
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_an_error() {
        let bytes = written();
        for len in 0..bytes.len() {
            let error = read(&bytes[..len]).unwrap_err();
            let expected = match len {
                0..12 => matches!(error, FileError::Foreign { .. }),
                _ => matches!(error, FileError::Cut { at, .. } if at == len as u64),
            };
            assert!(expected, "{len}: {error}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(read(&longer), Err(FileError::Longer { .. })));
        let mut newer = bytes;
        newer[8] = 4;
        assert!(matches!(read(&newer), Err(FileError::Version { found: 4, known: 3 })));
        newer[8] = 3;
        newer[14] ^= 1;
        assert!(matches!(read(&newer), Err(FileError::Damaged { .. })));
    }

    #[test]
    fn numbers_that_are_too_long_are_refused() {
        let mut bytes = written();
        bytes.truncate(12);
        bytes.extend([0xff; 9]);
        assert!(matches!(read(&bytes), Err(FileError::Bad { .. })));
    }
}
