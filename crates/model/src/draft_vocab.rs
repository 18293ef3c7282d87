//! The draft vocabulary: the token ids that a small draft head has rows for.
//!
//! Its file is a list of little-endian 32-bit ids and nothing else, in any order. An id that is
//! listed twice counts once: such a list means the same set, and lists made by merging others are
//! like that.

/// Bytes of an id in a file.
const ID_BYTES: usize = size_of::<i32>();

/// Ids of a vocabulary, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftVocab {
    /// Ascending, each once.
    ids: Vec<u32>,
}

/// Why a list of ids is no draft vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftVocabError {
    /// No ids.
    #[error("the draft vocabulary is empty; make one with `tuff draft-vocab build`")]
    Empty,
    /// The length of a file is no whole number of ids.
    #[error(
        "a draft vocabulary is a list of 32-bit ids, but {bytes} bytes are no multiple of \
         {ID_BYTES}: this is no such file, or it is cut off"
    )]
    Length {
        /// Bytes of the file.
        bytes: usize,
    },
    /// More ids than the model has tokens.
    #[error(
        "the draft vocabulary lists {ids} ids or more, but the model has only {vocab} tokens; it \
         is for another model"
    )]
    TooMany {
        /// Ids in the list, as far as it was read.
        ids: usize,
        /// Tokens of the model.
        vocab: usize,
    },
    /// An id that is no token of the model.
    #[error(
        "entry {entry} of the draft vocabulary is {id}, outside the model's ids 0..{vocab}; it is \
         for another model, or damaged"
    )]
    Id {
        /// Place in the list, from 1.
        entry: usize,
        /// The id, negative where the file says so.
        id: i64,
        /// Tokens of the model.
        vocab: usize,
    },
}

impl DraftVocab {
    /// From ids in any order, for a model of `vocab` tokens.
    ///
    /// # Errors
    /// As [`DraftVocab::parse`], but for the length.
    pub fn new(ids: Vec<u32>, vocab: usize) -> Result<Self, DraftVocabError> {
        Self::checked(ids.into_iter().map(i64::from), vocab)
    }

    /// Reads the contents of a file, for a model of `vocab` tokens.
    ///
    /// # Errors
    /// [`DraftVocabError`] if the file holds no whole ids, none, more than `vocab`, or one that is
    /// negative or not below `vocab`.
    pub fn parse(bytes: &[u8], vocab: usize) -> Result<Self, DraftVocabError> {
        let (words, rest) = bytes.as_chunks::<ID_BYTES>();
        if !rest.is_empty() {
            return Err(DraftVocabError::Length { bytes: bytes.len() });
        }
        Self::checked(words.iter().map(|&word| i64::from(i32::from_le_bytes(word))), vocab)
    }

    fn checked(
        entries: impl ExactSizeIterator<Item = i64>,
        vocab: usize,
    ) -> Result<Self, DraftVocabError> {
        match entries.len() {
            0 => return Err(DraftVocabError::Empty),
            ids if ids > vocab => return Err(DraftVocabError::TooMany { ids, vocab }),
            _ => {}
        }
        // Every id fits the file's signed words.
        let valid = |id: i64| i32::try_from(id).is_ok_and(|id| (id as usize) < vocab);
        let check = |(index, id): (usize, i64)| match u32::try_from(id) {
            Ok(known) if valid(id) => Ok(known),
            _ => Err(DraftVocabError::Id { entry: index + 1, id, vocab }),
        };
        let mut ids = entries.enumerate().map(check).collect::<Result<Vec<u32>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        Ok(Self { ids })
    }

    /// The contents of a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.ids.iter().flat_map(|id| id.to_le_bytes()).collect()
    }

    /// The ids, ascending.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Whether an id is among them.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The number of ids, never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// The share of these ids that are among them; 1 if there are none.
    #[must_use]
    pub fn coverage(&self, ids: &[u32]) -> f64 {
        if ids.is_empty() {
            return 1.0;
        }
        ids.iter().filter(|&&id| self.contains(id)).count() as f64 / ids.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ids: &[i32]) -> Vec<u8> {
        ids.iter().flat_map(|id| id.to_le_bytes()).collect()
    }

    #[test]
    fn any_order_and_repeated_ids_are_one_set() {
        let vocab = DraftVocab::parse(&file(&[7, 0, 300, 7]), 301).unwrap();
        assert_eq!((vocab.ids(), vocab.len()), (&[0, 7, 300][..], 3));
        assert!(vocab.contains(300) && !vocab.contains(1) && !vocab.contains(u32::MAX));
        assert_eq!(DraftVocab::new(vec![300, 7, 0], 301).unwrap(), vocab);
    }

    #[test]
    fn bytes_are_what_they_were_read_from() {
        let bytes = file(&[1, 2, 0x0102_0304]);
        let vocab = DraftVocab::parse(&bytes, 0x0102_0305).unwrap();
        assert_eq!(vocab.to_bytes(), bytes);
        assert_eq!(bytes[8..], [4, 3, 2, 1]);
    }

    #[test]
    fn what_is_no_list_for_the_model_is_refused() {
        use DraftVocabError::{Empty, Id, Length, TooMany};
        let cases = [
            (file(&[]), Empty),
            (vec![0; 7], Length { bytes: 7 }),
            (vec![0; 1], Length { bytes: 1 }),
            (file(&[0, 8]), Id { entry: 2, id: 8, vocab: 8 }),
            (file(&[-1]), Id { entry: 1, id: -1, vocab: 8 }),
            (file(&[i32::MIN]), Id { entry: 1, id: i32::MIN.into(), vocab: 8 }),
            (file(&[0; 9]), TooMany { ids: 9, vocab: 8 }),
        ];
        for (bytes, expected) in cases {
            let error = DraftVocab::parse(&bytes, 8).unwrap_err();
            assert_eq!(error, expected);
            assert!(error.to_string().contains("draft vocabulary"), "{error}");
        }
        assert_eq!(DraftVocab::parse(&file(&[0; 8]), 8).unwrap().ids(), [0]);
        let past_the_file = DraftVocab::new(vec![1 << 31], usize::MAX);
        assert!(matches!(past_the_file, Err(Id { entry: 1, .. })));
    }

    #[test]
    fn coverage_is_a_share_of_tokens() {
        let vocab = DraftVocab::new(vec![1, 2], 10).unwrap();
        assert_eq!(vocab.coverage(&[1, 1, 3, 2]), 0.75);
        assert_eq!(vocab.coverage(&[9]), 0.0);
        assert_eq!(vocab.coverage(&[]), 1.0);
    }
}
