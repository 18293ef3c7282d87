//! Ids to text, one at a time. A token may end inside a character, so the bytes of an incomplete
//! character wait for the next token; bytes that can no longer become a character turn into
//! U+FFFD at once. What comes out, joined, is exactly the lossy decoding of all bytes.

use super::error::TokenizerError;
use super::{SkipSpecial, Tokenizer};

/// Bytes of an incomplete character that may wait: UTF-8 has at most four, the last completes it.
const MAX_TAIL: usize = 3;

/// Bytes to text, in pieces that end anywhere.
#[derive(Debug, Clone, Default)]
pub struct Utf8Stream {
    tail: Vec<u8>,
}

impl Utf8Stream {
    /// Takes the next bytes; returns all text that is certain now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.tail.extend_from_slice(bytes);
        let (text, kept) = split_complete(&self.tail);
        let done = self.tail.len() - kept;
        self.tail.drain(..done);
        debug_assert!(self.tail.len() <= MAX_TAIL);
        text
    }

    /// Ends the text: bytes that still wait become one U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.tail).into_owned();
        self.tail.clear();
        text
    }

    /// The number of bytes that wait for the rest of their character, at most three.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tail.len()
    }
}

/// Text of the bytes up to an incomplete character at the end, and the length of that.
fn split_complete(bytes: &[u8]) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return (text, 0);
            }
            Err(error) => error,
        };
        let (valid, after) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        let Some(invalid) = error.error_len() else { return (text, after.len()) };
        text.push(char::REPLACEMENT_CHARACTER);
        rest = &after[invalid..];
    }
}

/// Decodes ids as they are generated; made by [`Tokenizer::stream`].
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    skip: SkipSpecial,
    utf8: Utf8Stream,
}

impl StreamDecoder {
    pub(super) fn new(tokenizer: Tokenizer, skip: SkipSpecial) -> StreamDecoder {
        StreamDecoder { tokenizer, skip, utf8: Utf8Stream::default() }
    }

    /// Takes the next id; returns all text that is certain now, often none.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id outside the vocabulary; nothing changes then.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let bytes = self.tokenizer.shown_bytes(id, self.skip)?;
        Ok(self.utf8.push(bytes))
    }

    /// Ends the text: bytes that still wait become one U+FFFD. The decoder can be used again.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }

    /// The number of bytes that wait for the rest of their character, at most three.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.utf8.pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(bytes: &[u8], chunk: usize) -> String {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        for piece in bytes.chunks(chunk) {
            text += &stream.push(piece);
            assert!(stream.pending() <= MAX_TAIL);
        }
        text + &stream.finish()
    }

    #[test]
    fn every_chunking_equals_lossy_decoding() {
        let samples: [&[u8]; 10] = [
            b"",
            "a\u{e9}\u{4f60}\u{1f642}z".as_bytes(),
            b"\xC0\x80",
            b"\xED\xA0\x80x",
            b"\xF4\x90\x80\x80",
            b"ab\xE5",
            b"\xE5\xE5\xBD\xE5\xBD\x93",
            b"\xF0\x9F\x99",
            b"\x80\x80\x80\x80\x80",
            b"\xF0\x9F\x99\xF0\x9F\x99\x82",
        ];
        for bytes in samples {
            for chunk in 1..=bytes.len().max(1) {
                assert_eq!(streamed(bytes, chunk), String::from_utf8_lossy(bytes), "{bytes:x?}");
            }
        }
    }

    #[test]
    fn invalid_bytes_do_not_wait() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"\x80"), "\u{FFFD}");
        assert_eq!(stream.push(b"\xC0"), "\u{FFFD}");
        assert_eq!(stream.push(b"\xE4"), "");
        assert_eq!(stream.push(b"\xBD"), "");
        assert_eq!(stream.push(b"x"), "\u{FFFD}x");
        assert_eq!(stream.finish(), "");
    }
}
