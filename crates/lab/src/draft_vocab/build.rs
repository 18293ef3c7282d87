//! Choosing the tokens of a draft vocabulary.

use model::tokenizer::{TokenKind, Tokenizer};
use model::{DraftVocab, DraftVocabError};

use super::{Scripts, TokenCounts, basic};

/// What a draft vocabulary is made from, at least one of the two.
///
/// Control and user-defined tokens and single bytes always belong to it. Then come the tokens of
/// the corpus, the most frequent first, and then all that is written in the scripts, by rising id:
/// the lower an id of a BPE vocabulary, the more frequent its token was where it was trained.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recipe<'a> {
    /// Tokens of texts like those that will be written.
    pub corpus: Option<&'a TokenCounts>,
    /// Scripts that will be written.
    pub scripts: Option<&'a Scripts>,
    /// Ids at most; without it, all that qualify.
    pub size: Option<usize>,
}

/// Why no draft vocabulary can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Nothing to choose by.
    #[error("there is nothing to choose tokens by: name a corpus that has text, or scripts")]
    NoSource,
    /// Not even the tokens that always belong to it fit.
    #[error(
        "a draft vocabulary of {size} ids is too small: control tokens, user-defined tokens and \
         single bytes alone are {least}"
    )]
    TooSmall {
        /// Ids that were allowed.
        size: usize,
        /// Ids that are needed.
        least: usize,
    },
    /// The ids are no list for this model.
    #[error(transparent)]
    Ids(#[from] DraftVocabError),
}

impl Recipe<'_> {
    /// Chooses the tokens. The same texts, scripts and size give the same ids.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, tokenizer: &Tokenizer) -> Result<DraftVocab, BuildError> {
        if self.corpus.is_none_or(|corpus| corpus.total() == 0) && self.scripts.is_none() {
            return Err(BuildError::NoSource);
        }
        let vocab = tokenizer.vocab_size();
        let mut chosen = Chosen { ids: Vec::new(), taken: vec![false; vocab] };
        let all = || 0..vocab as u32;
        chosen.take(all().filter(|&id| basic(tokenizer, id).is_some()), vocab);

        let (least, size) = (chosen.ids.len(), self.size.unwrap_or(vocab));
        if size < least {
            return Err(BuildError::TooSmall { size, least });
        }
        if let Some(corpus) = self.corpus {
            chosen.take(corpus.most_frequent(), size);
        }
        if let Some(scripts) = self.scripts {
            let normal = all().filter(|&id| tokenizer.kind(id) == Some(TokenKind::Normal));
            let written = |id: &u32| scripts.cover(tokenizer.token_bytes(*id).unwrap_or_default());
            chosen.take(normal.filter(written), size);
        }
        Ok(DraftVocab::new(chosen.ids, vocab)?)
    }
}

/// The ids so far.
struct Chosen {
    ids: Vec<u32>,
    /// By id.
    taken: Vec<bool>,
}

impl Chosen {
    /// Takes ids, those first that come first, until there are `size` in all.
    fn take(&mut self, ids: impl Iterator<Item = u32>, size: usize) {
        for id in ids {
            if self.ids.len() >= size {
                return;
            }
            match self.taken.get_mut(id as usize) {
                Some(taken) if !*taken => *taken = true,
                _ => continue,
            }
            self.ids.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy;
    use super::*;

    fn build(corpus: &[&str], scripts: Option<&str>, size: Option<usize>) -> Vec<String> {
        let tokenizer = toy::tokenizer();
        let mut counts = TokenCounts::new(tokenizer.vocab_size());
        for word in corpus {
            counts.add(&[tokenizer.token_id(word).unwrap()]);
        }
        let scripts: Option<Scripts> = scripts.map(|names| names.parse().unwrap());
        let corpus = Some(&counts).filter(|_| !corpus.is_empty());
        let vocab = Recipe { corpus, scripts: scripts.as_ref(), size }.build(&tokenizer).unwrap();
        let basic = vocab.ids().iter().filter(|&&id| basic(&tokenizer, id).is_some()).count();
        assert_eq!(basic, toy::BASIC, "they always belong to it");
        let others = vocab.ids().iter().filter(|&&id| super::basic(&tokenizer, id).is_none());
        others.map(|&id| tokenizer.piece(id).unwrap()).collect()
    }

    #[test]
    fn scripts_choose_by_rising_id() {
        let latin = [" the", "->", " caf\u{e9}", " and"];
        assert_eq!(build(&[], Some("latin"), None), latin);
        assert_eq!(build(&[], Some("latin"), Some(toy::BASIC + 2)), latin[..2]);
        assert_eq!(build(&[], Some("latin"), Some(toy::BASIC)), [""; 0]);
        let cyrillic = ["->", " \u{43d}\u{430}"];
        assert_eq!(build(&[], Some("cyrillic"), None), cyrillic);
        // A part of a Han character shows as U+FFFD.
        let cjk = ["->", "\u{4f60}\u{597d}", "\u{fffd}"];
        assert_eq!(build(&[], Some("cjk"), None), cjk);
    }

    #[test]
    fn a_corpus_comes_first_and_scripts_fill_up() {
        let corpus = [" and", "\u{4f60}\u{597d}", " and", " the"];
        assert_eq!(build(&corpus, None, None), [" the", "\u{4f60}\u{597d}", " and"]);
        // " the" and the greeting occur once each: the lower id comes first.
        assert_eq!(build(&corpus, None, Some(toy::BASIC + 2)), [" the", " and"]);
        let filled = build(&corpus, Some("latin"), Some(toy::BASIC + 4));
        assert_eq!(filled, [" the", "->", "\u{4f60}\u{597d}", " and"]);
    }

    #[test]
    fn too_small_a_size_and_no_source_are_errors() {
        let tokenizer = toy::tokenizer();
        let latin: Scripts = "latin".parse().unwrap();
        let size = Some(toy::BASIC - 1);
        let error = Recipe { scripts: Some(&latin), size, corpus: None }.build(&tokenizer);
        let (size, least) = (toy::BASIC - 1, toy::BASIC);
        assert_eq!(error, Err(BuildError::TooSmall { size, least }));
        let empty = TokenCounts::new(tokenizer.vocab_size());
        for corpus in [None, Some(&empty)] {
            let recipe = Recipe { corpus, ..Recipe::default() };
            assert_eq!(recipe.build(&tokenizer), Err(BuildError::NoSource));
        }
    }

    #[test]
    fn unused_ids_never_belong_to_it() {
        let tokenizer = toy::tokenizer();
        let every: Scripts = "latin,cjk,cyrillic".parse().unwrap();
        let vocab =
            Recipe { scripts: Some(&every), ..Recipe::default() }.build(&tokenizer).unwrap();
        let unused = (0..tokenizer.vocab_size() as u32)
            .filter(|&id| tokenizer.kind(id) == Some(TokenKind::Unused));
        assert_eq!(unused.filter(|&id| vocab.contains(id)).count(), 0);
    }
}
