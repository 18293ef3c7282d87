//! A position in untrusted bytes. Every read is checked against what is left, and nothing is
//! copied before the check.

use std::fmt::Display;

use crate::fault::Fault;

#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Cursor<'a> {
        Cursor { all, rest: all }
    }

    /// Bytes from the start.
    pub(crate) fn at(&self) -> u64 {
        (self.all.len() - self.rest.len()) as u64
    }

    /// Bytes to the end.
    pub(crate) fn left(&self) -> u64 {
        self.rest.len() as u64
    }

    /// The next `count` bytes; `what` names the field in the error.
    pub(crate) fn take(&mut self, count: u64, what: &dyn Display) -> Result<&'a [u8], Fault> {
        let split = usize::try_from(count).ok().and_then(|n| self.rest.split_at_checked(n));
        let Some((taken, rest)) = split else { return Err(self.truncated(count, what)) };
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: &dyn Display) -> Result<[u8; N], Fault> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(N as u64, what));
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self, what: &dyn Display) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &dyn Display) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The next `len` bytes as text.
    pub(crate) fn text(&mut self, len: u64, what: &dyn Display) -> Result<&'a str, Fault> {
        let at = self.at();
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|error| Fault::NotUtf8 {
            what: what.to_string(),
            at: at + error.valid_up_to() as u64,
        })
    }

    /// A string: its 64-bit length, then its bytes.
    pub(crate) fn string(&mut self, what: &dyn Display) -> Result<&'a str, Fault> {
        let len = self.u64(&format_args!("length of {what}"))?;
        self.text(len, what)
    }

    fn truncated(&self, need: u64, what: &dyn Display) -> Fault {
        Fault::Truncated { what: what.to_string(), at: self.at(), need, left: self.left() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_near_the_end_of_the_number_range_is_an_error() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5]);
        assert_eq!(cursor.u32(&"x"), Ok(0x0403_0201));
        let fault = cursor.take(u64::MAX, &"tail").unwrap_err();
        let what = "tail".to_owned();
        assert_eq!(fault, Fault::Truncated { what, at: 4, need: u64::MAX, left: 1 });
        assert_eq!(cursor.take(1, &"tail"), Ok(&[5u8][..]));
        assert_eq!(cursor.left(), 0);
    }

    #[test]
    fn bad_text_is_located() {
        let mut cursor = Cursor::new(b"ab\xffd");
        let what = "name".to_owned();
        assert_eq!(cursor.text(4, &"name"), Err(Fault::NotUtf8 { what, at: 2 }));
    }
}
