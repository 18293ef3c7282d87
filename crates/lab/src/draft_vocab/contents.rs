//! What a draft vocabulary holds.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::DraftVocab;
use model::tokenizer::{TokenKind, Tokenizer};

use super::script::Written;
use super::{Basic, basic};

/// The ids of a draft vocabulary by what they are; each counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Control tokens.
    pub control: usize,
    /// User-defined tokens.
    pub user_defined: usize,
    /// Single bytes.
    pub bytes: usize,
    /// Ids that no text has.
    pub unused: usize,
    /// All others by the script that they are written in, most first.
    pub scripts: Vec<(String, usize)>,
}

impl Contents {
    /// Sorts the ids of a draft vocabulary. Ids that the tokenizer does not have are unused.
    pub fn new(tokenizer: &Tokenizer, vocab: &DraftVocab) -> Contents {
        Self::of(tokenizer, vocab.ids().iter().copied())
    }

    /// Sorts all ids of a tokenizer, to compare with.
    pub fn all(tokenizer: &Tokenizer) -> Contents {
        Self::of(tokenizer, 0..tokenizer.vocab_size() as u32)
    }

    fn of(tokenizer: &Tokenizer, ids: impl Iterator<Item = u32>) -> Contents {
        let mut contents =
            Contents { control: 0, user_defined: 0, bytes: 0, unused: 0, scripts: Vec::new() };
        let mut scripts = BTreeMap::new();
        for id in ids {
            match (basic(tokenizer, id), tokenizer.kind(id)) {
                (Some(Basic::Control), _) => contents.control += 1,
                (Some(Basic::UserDefined), _) => contents.user_defined += 1,
                (Some(Basic::Byte), _) => contents.bytes += 1,
                (None, Some(TokenKind::Normal)) => {
                    let written = Written::of(tokenizer.token_bytes(id).unwrap_or_default());
                    *scripts.entry(written.name()).or_default() += 1;
                }
                (None, _) => contents.unused += 1,
            }
        }
        contents.scripts = scripts.into_iter().collect();
        contents.scripts.sort_by_key(|(_, count)| Reverse(*count));
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy;
    use super::*;

    #[test]
    fn every_id_is_counted_once() {
        let tokenizer = toy::tokenizer();
        let size = tokenizer.vocab_size();
        let all = DraftVocab::new((0..size as u32).collect(), size).unwrap();
        let contents = Contents::new(&tokenizer, &all);
        assert_eq!(contents, Contents::all(&tokenizer));
        assert_eq!((contents.control, contents.user_defined), (2, 1));
        assert_eq!((contents.bytes, contents.unused), (256, 1));
        let scripts = [
            ("latin", 3),
            ("common to all scripts", 1),
            ("cyrillic", 1),
            ("han", 1),
            ("parts of characters", 1),
            ("several scripts", 1),
        ];
        assert_eq!(contents.scripts, scripts.map(|(name, count)| (name.to_owned(), count)));
        let sum: usize = scripts.iter().map(|(_, count)| count).sum();
        assert_eq!(sum + 2 + 1 + 256 + 1, size);
    }
}
