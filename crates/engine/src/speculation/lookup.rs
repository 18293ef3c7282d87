//! Prompt lookup: what followed the latest tokens when they came before.
//!
//! Pairs and triples of tokens are indexed by hash chains, as in a Lempel-Ziv compressor. A draft
//! follows the longest earlier occurrence of the sequence's end, the most recent of equal ones.
//! Two limits keep a look-up short whatever the text is: matches of `MAX_MATCH` tokens count as
//! equally long, and only the `MAX_STEPS` latest places of a triple are looked at.
//!
//! Memory is at most 40 bytes per token of the sequence, a few KiB at least.

/// Shortest match that is proposed.
const MIN_MATCH: usize = 2;
/// Longest match that is told apart from longer ones.
const MAX_MATCH: usize = 64;
/// Places of a chain that one look-up visits.
const MAX_STEPS: usize = 128;
/// End of a chain.
const NONE: u32 = u32::MAX;
/// Smallest hash table.
const MIN_TABLE: usize = 256;

/// An index of a growing token sequence.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    tokens: Vec<u32>,
    triples: Chains<3>,
    pairs: Chains<2>,
}

/// Tokens that followed an earlier occurrence of the sequence's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupDraft {
    /// The drafts, at least one.
    pub tokens: Vec<u32>,
    /// Tokens that matched, `2..=64`; the latter also stands for more.
    pub matched: usize,
}

impl Lookup {
    /// An empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Length of the sequence.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the sequence has no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
        // Only places that something follows are of use, so the end itself is never found.
        let end = self.tokens.len() - 1;
        self.triples.index(&self.tokens, end);
        self.pairs.index(&self.tokens, end);
    }

    /// Appends tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|&token| self.push(token));
    }

    /// Makes `sequence` the sequence: appends what is new if it extends the present one, else
    /// starts anew. Compares all of it, so [`Lookup::push`] is cheaper for single tokens.
    pub fn sync(&mut self, sequence: &[u32]) {
        if !sequence.starts_with(&self.tokens) {
            *self = Self::default();
        }
        self.extend(&sequence[self.tokens.len()..]);
    }

    /// At most `max` drafts of what follows the sequence; `None` if its last two tokens did not
    /// come before or `max` is 0. A match that runs into the end goes on as a period.
    pub fn propose(&self, max: usize) -> Option<LookupDraft> {
        if max == 0 {
            return None;
        }
        let found = self.triples.longest(&self.tokens);
        let (end, matched) = found.or_else(|| self.pairs.longest(&self.tokens))?;
        let period = self.tokens.len() - end;
        let tokens = (0..max).map(|i| self.tokens[end + i % period]).collect();
        Some(LookupDraft { tokens, matched })
    }
}

/// Ends of all `N`-grams, chained by hash from the latest to the earliest.
#[derive(Clone, Debug, Default)]
struct Chains<const N: usize> {
    /// Latest end of each hash; a power of two long, or empty.
    heads: Vec<u32>,
    /// For each end (exclusive index), the one before it with the same hash.
    earlier: Vec<u32>,
}

impl<const N: usize> Chains<N> {
    /// Indexes the N-gram that ends before `end`, which must grow by one from call to call.
    fn index(&mut self, tokens: &[u32], end: usize) {
        if end >= self.heads.len() {
            self.grow(tokens, end);
        } else {
            self.link(tokens, end);
        }
    }

    /// Doubles the table, so that chains stay short, and indexes all ends again up to `end`.
    fn grow(&mut self, tokens: &[u32], end: usize) {
        let size = (2 * self.heads.len()).max(MIN_TABLE);
        self.heads = vec![NONE; size];
        self.earlier.clear();
        (0..=end).for_each(|end| self.link(tokens, end));
    }

    fn link(&mut self, tokens: &[u32], end: usize) {
        // A sequence that 32 bits cannot count is not indexed any further.
        let place = u32::try_from(end).unwrap_or(NONE);
        let earlier = match end.checked_sub(N) {
            Some(start) => {
                let slot = self.slot(&tokens[start..end]);
                std::mem::replace(&mut self.heads[slot], place)
            }
            None => NONE,
        };
        self.earlier.push(earlier);
    }

    fn slot(&self, gram: &[u32]) -> usize {
        let mix = |hash: u64, &token: &u32| {
            (hash ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        gram.iter().fold(0, mix) as usize & (self.heads.len() - 1)
    }

    /// Where the longest earlier occurrence of the end of `tokens` ends (exclusive), and how many
    /// tokens match there.
    fn longest(&self, tokens: &[u32]) -> Option<(usize, usize)> {
        let last = &tokens[tokens.len().checked_sub(N.max(MIN_MATCH))?..];
        if self.heads.is_empty() {
            return None;
        }
        let mut best = None;
        let mut place = self.heads[self.slot(last)];
        for _ in 0..MAX_STEPS {
            if place == NONE {
                break;
            }
            let end = place as usize;
            let matched = common_suffix(&tokens[..end], tokens);
            if matched >= N && best.is_none_or(|(_, longest)| matched > longest) {
                best = Some((end, matched));
            }
            if matched == MAX_MATCH {
                break;
            }
            place = self.earlier[end];
        }
        best
    }
}

/// Tokens at the ends of `a` and `b` that are equal, at most [`MAX_MATCH`].
fn common_suffix(a: &[u32], b: &[u32]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(MAX_MATCH).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(tokens: &[u32]) -> Lookup {
        let mut lookup = Lookup::new();
        lookup.extend(tokens);
        lookup
    }

    fn draft(tokens: &[u32], matched: usize) -> Option<LookupDraft> {
        Some(LookupDraft { tokens: tokens.to_vec(), matched })
    }

    /// The definition, word by word.
    fn slow(tokens: &[u32], max: usize) -> Option<LookupDraft> {
        let ends = (1..tokens.len()).map(|end| (common_suffix(&tokens[..end], tokens), end));
        let (matched, end) = ends.max()?;
        let mut all = tokens.to_vec();
        for i in 0..max {
            all.push(all[end + i]);
        }
        (matched >= MIN_MATCH && max > 0)
            .then(|| LookupDraft { tokens: all[tokens.len()..].to_vec(), matched })
    }

    #[test]
    fn follows_the_longest_then_the_latest_match() {
        assert_eq!(lookup(&[]).propose(4), None);
        assert_eq!(lookup(&[1, 2]).propose(4), None);
        assert_eq!(lookup(&[1, 2, 9, 2]).propose(4), None, "one token is no match");
        assert_eq!(lookup(&[1, 2, 9, 8, 1, 2]).propose(2), draft(&[9, 8], 2));
        let longer_is_older = [5, 1, 2, 3, 7, 0, 1, 2, 3, 8, 5, 1, 2, 3];
        assert_eq!(lookup(&longer_is_older).propose(1), draft(&[7], 4));
        let equal = [1, 2, 3, 7, 0, 1, 2, 3, 8, 6, 1, 2, 3];
        assert_eq!(lookup(&equal).propose(3), draft(&[8, 6, 1], 3));
        assert_eq!(lookup(&equal).propose(0), None);
    }

    #[test]
    fn continues_a_period_beyond_the_end() {
        let abc = [9, 1, 2, 3, 1, 2, 3, 1, 2];
        assert_eq!(lookup(&abc).propose(7), draft(&[3, 1, 2, 3, 1, 2, 3], 5));
        assert_eq!(lookup(&[4, 4, 4]).propose(3), draft(&[4, 4, 4], 2));
    }

    #[test]
    fn equals_the_definition_on_random_text() {
        let mut state = 7_u64;
        let mut tokens = Vec::new();
        let mut lookup = Lookup::new();
        for i in 0..1500 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Some alphabets give long chains, some long matches.
            let letters = [2, 3, 9, 40][i / 375];
            let token = 1000 * (i / 375) as u32 + (state >> 33) as u32 % letters;
            tokens.push(token);
            lookup.push(token);
            let (fast, slow) = (lookup.propose(8), slow(&tokens, 8));
            if letters > 3 {
                assert_eq!(fast, slow, "{i}");
            } else {
                // Chains are long enough to be cut, which costs a little length.
                assert_eq!(fast.is_some(), slow.is_some(), "{i}");
                let shorter = fast.zip(slow).map_or(0, |(f, s)| s.matched - f.matched);
                assert!(shorter <= 8, "{i}: {shorter}");
            }
        }
    }

    #[test]
    fn sync_extends_or_starts_anew() {
        let mut lookup = Lookup::new();
        lookup.sync(&[1, 2, 3, 1, 2]);
        assert_eq!(lookup.propose(1), draft(&[3], 2));
        lookup.sync(&[1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(lookup.propose(1), draft(&[2], 4));
        lookup.sync(&[1, 2, 3, 1, 2]);
        assert_eq!(lookup.len(), 5);
        assert_eq!(lookup.propose(1), draft(&[3], 2));
        lookup.sync(&[7, 8, 9, 7, 8]);
        assert_eq!(lookup.propose(1), draft(&[9], 2));
        lookup.sync(&[]);
        assert!(lookup.is_empty());
        assert_eq!(lookup.propose(1), None);
    }

    #[test]
    fn one_token_repeated_costs_no_more_than_others() {
        let mut lookup = Lookup::new();
        for i in 0..200_000 {
            lookup.push(5);
            if i >= 2 {
                let draft = lookup.propose(8).unwrap();
                assert_eq!(draft.tokens, [5; 8]);
                assert_eq!(draft.matched, MAX_MATCH.min(i), "{i}");
            }
        }
    }

    #[test]
    fn memory_is_as_documented() {
        let mut lookup = Lookup::new();
        (0..100_000).for_each(|i| lookup.push(i));
        let used = lookup.tokens.capacity()
            + lookup.triples.heads.capacity()
            + lookup.triples.earlier.capacity()
            + lookup.pairs.heads.capacity()
            + lookup.pairs.earlier.capacity();
        assert!(4 * used <= 40 * lookup.len(), "{used}");
    }
}
