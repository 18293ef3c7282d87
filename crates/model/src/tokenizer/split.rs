//! The pre-tokenizer `qwen35`: where a text is cut into pieces that are merged separately.
//!
//! It is that of Qwen2 with combining marks (`\p{M}`) joined to letters. Its pattern has one
//! alternative that looks ahead, `\s+(?!\S)`: a run of whitespace leaves its last character to
//! the word that follows. Backtracking engines give up on that in long runs, so these places are
//! found by hand and the text is cut there; what remains of the pattern is regular.

use tokenizers::utils::SysRegex;

use super::error::TokenizerError;

/// The pattern without `\s+(?!\S)`, which stands before the last alternative.
const REGULAR: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
    r"|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+",
);

/// The splitter, compiled once.
#[derive(Debug)]
pub(super) struct Splitter {
    regular: SysRegex,
}

impl Splitter {
    /// Compiles the pattern.
    pub(super) fn new() -> Result<Splitter, TokenizerError> {
        let regular = SysRegex::new(REGULAR)
            .map_err(|error| TokenizerError::Bpe { reason: error.to_string() })?;
        Ok(Splitter { regular })
    }

    /// Calls `piece` with each piece in order; the pieces joined are the text.
    pub(super) fn split(
        &self,
        text: &str,
        mut piece: impl FnMut(&str) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        for stretch in Stretches(text) {
            let mut done = 0;
            for (start, end) in self.regular.find_iter(stretch) {
                piece(&stretch[start..end])?;
                done += end - start;
            }
            // The pattern matches any character, so a rest means that matching was given up.
            if done != stretch.len() {
                let reason = format!("the pattern gave up {done} bytes into a stretch");
                return Err(TokenizerError::Bpe { reason });
            }
        }
        Ok(())
    }
}

/// A text cut before the last character of each run of whitespace that a word follows, unless
/// that character ends a line. A piece always starts there, and nothing to the left depends on
/// what is to the right.
struct Stretches<'a>(&'a str);

impl<'a> Iterator for Stretches<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (head, tail) = self.0.split_at(self.first_cut().unwrap_or(self.0.len()));
        self.0 = tail;
        Some(head)
    }
}

impl Stretches<'_> {
    fn first_cut(&self) -> Option<usize> {
        let mut run = 0;
        let mut last = (0, ' ');
        for (at, c) in self.0.char_indices() {
            if c.is_whitespace() {
                run += 1;
                last = (at, c);
            } else {
                if run > 1 && !matches!(last.1, '\r' | '\n') {
                    return Some(last.0);
                }
                run = 0;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pattern as published.
    const PUBLISHED: &str = concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    );

    fn pieces(text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        Splitter::new()
            .unwrap()
            .split(text, |piece| {
                pieces.push(piece.to_owned());
                Ok(())
            })
            .unwrap();
        pieces
    }

    #[test]
    fn every_short_text_splits_as_the_published_pattern_says() {
        let published = SysRegex::new(PUBLISHED).unwrap();
        let splitter = Splitter::new().unwrap();
        let alphabet = ['a', ' ', '\n', '\t', '!', '1', '\u{301}', '\'', '\u{a0}', '\r'];
        for length in 0..=5u32 {
            for code in 0..alphabet.len().pow(length) {
                let digit = |place| alphabet[code / alphabet.len().pow(place) % alphabet.len()];
                let text: String = (0..length).map(digit).collect();
                let mut expected = published.find_iter(&text);
                splitter
                    .split(&text, |piece| {
                        let (start, end) = expected.next().unwrap();
                        assert_eq!(piece, &text[start..end], "{text:?}");
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(expected.next(), None, "{text:?}");
            }
        }
    }

    #[test]
    fn a_run_leaves_its_last_space_to_the_word() {
        assert_eq!(pieces("a   b"), ["a", "  ", " b"]);
        assert_eq!(pieces("a \n  1"), ["a", " \n", " ", " ", "1"]);
        assert_eq!(pieces("!\n\n  x"), ["!\n\n", " ", " x"]);
        assert_eq!(pieces("It's  "), ["It", "'s", "  "]);
        assert_eq!(pieces("e\u{301}\u{301}x"), ["e\u{301}\u{301}x"]);
    }
}
