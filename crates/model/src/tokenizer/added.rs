//! Control and user-defined tokens, and the search for them in text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::error::TokenizerError;
use super::vocab::Vocab;

/// An added token found in a text, as a byte range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: u32,
}

/// The tokens that are cut out of a text before it is split.
#[derive(Debug)]
pub(super) struct AddedTokens {
    ids: HashMap<Box<str>, u32>,
    /// By first byte, the lengths in bytes of the tokens that start with it, longest first.
    lengths: Vec<Vec<usize>>,
}

impl AddedTokens {
    /// The added tokens among all texts of a vocabulary.
    pub(super) fn new(texts: &[String], vocab: &Vocab) -> Result<AddedTokens, TokenizerError> {
        let mut added = AddedTokens { ids: HashMap::new(), lengths: vec![Vec::new(); 256] };
        for ((id, kind), text) in vocab.kinds().zip(texts) {
            if kind.is_added() {
                added.insert(text, id)?;
            }
        }
        for lengths in &mut added.lengths {
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            lengths.dedup();
        }
        Ok(added)
    }

    fn insert(&mut self, text: &str, id: u32) -> Result<(), TokenizerError> {
        match self.ids.entry(text.into()) {
            Entry::Occupied(entry) => {
                let first = *entry.get();
                let text = text.to_owned();
                return Err(TokenizerError::DuplicateToken { text, first, second: id });
            }
            Entry::Vacant(entry) => entry.insert(id),
        };
        if let Some(&byte) = text.as_bytes().first() {
            self.lengths[usize::from(byte)].push(text.len());
        }
        Ok(())
    }

    /// The id of an added token.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// All texts with their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ids.iter().map(|(text, &id)| (&**text, id))
    }

    /// The leftmost added token in a text; the longest one where several start.
    pub(super) fn find(&self, text: &str) -> Option<Found> {
        text.bytes().enumerate().find_map(|(start, byte)| {
            self.lengths[usize::from(byte)].iter().find_map(|len| {
                let end = start + len;
                let id = self.id(text.get(start..end)?)?;
                Some(Found { start, end, id })
            })
        })
    }
}
