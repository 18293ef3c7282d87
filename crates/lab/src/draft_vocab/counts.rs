//! How often tokens occur in texts.

use std::cmp::Reverse;

use model::DraftVocab;

/// Counts by token id.
#[derive(Clone, Debug)]
pub struct TokenCounts {
    counts: Vec<u64>,
    total: u64,
}

/// A token of the texts that a draft vocabulary lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The token.
    pub id: u32,
    /// How often it occurs.
    pub count: u64,
}

impl TokenCounts {
    /// No texts yet, for a model of `vocab` tokens.
    pub fn new(vocab: usize) -> Self {
        Self { counts: vec![0; vocab], total: 0 }
    }

    /// Adds the tokens of a text; ids that are no token of the model are not counted.
    pub fn add(&mut self, ids: &[u32]) {
        for &id in ids {
            if let Some(count) = self.counts.get_mut(id as usize) {
                *count += 1;
                self.total += 1;
            }
        }
    }

    /// Tokens of all texts.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Tokens that occur, the most frequent first, equally frequent ones by id.
    pub fn most_frequent(&self) -> impl Iterator<Item = u32> {
        let mut ids: Vec<u32> =
            (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|&id| (Reverse(self.counts[id as usize]), id));
        ids.into_iter()
    }

    /// The share of the tokens of all texts that are in a draft vocabulary; 1 if there are none.
    pub fn coverage(&self, vocab: &DraftVocab) -> f64 {
        if self.total == 0 {
            return 1.0;
        }
        let counts = vocab.ids().iter().filter_map(|&id| self.counts.get(id as usize));
        counts.sum::<u64>() as f64 / self.total as f64
    }

    /// Tokens that occur but are not in a draft vocabulary, the most frequent first.
    pub fn missing<'a>(&'a self, vocab: &'a DraftVocab) -> impl Iterator<Item = Missing> + 'a {
        let outside = self.most_frequent().filter(|&id| !vocab.contains(id));
        outside.map(|id| Missing { id, count: self.counts[id as usize] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_tokens_come_first_and_equal_ones_by_id() {
        let mut counts = TokenCounts::new(10);
        counts.add(&[7, 3, 3, 9, 1]);
        counts.add(&[9, 3, 7, 10, u32::MAX]);
        assert_eq!(counts.total(), 8);
        assert_eq!(counts.most_frequent().collect::<Vec<_>>(), [3, 7, 9, 1]);
    }

    #[test]
    fn coverage_and_what_is_missing_add_up() {
        let mut counts = TokenCounts::new(10);
        let vocab = DraftVocab::new(vec![3, 5, 9], 10).unwrap();
        assert_eq!((counts.coverage(&vocab), counts.missing(&vocab).count()), (1.0, 0));
        let text = [7, 3, 3, 9, 1, 7, 3, 9];
        counts.add(&text);
        assert_eq!(counts.coverage(&vocab), 0.625);
        assert_eq!(counts.coverage(&vocab), vocab.coverage(&text));
        let missing: Vec<_> = counts.missing(&vocab).map(|m| (m.id, m.count)).collect();
        assert_eq!(missing, [(7, 2), (1, 1)]);
    }
}
