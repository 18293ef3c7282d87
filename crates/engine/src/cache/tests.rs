use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What stands for a piece or a snapshot: all tokens up to its end, and a size.
#[derive(Clone, Debug, PartialEq)]
struct Fake {
    tokens: Vec<u32>,
    size: usize,
}

impl Held for Fake {
    fn bytes(&self) -> usize {
        self.size
    }
}

type Cache = PromptCache<Fake, Fake>;

/// A sequence as a source; counts what it is asked for.
struct Text<'a> {
    tokens: &'a [u32],
    block: usize,
    /// Bytes of a piece and of a snapshot.
    sizes: (usize, usize),
    pieces: usize,
    better: bool,
    /// The piece that fails.
    fails_at: Option<usize>,
}

impl<'a> Text<'a> {
    fn new(tokens: &'a [u32], block: usize, sizes: (usize, usize)) -> Self {
        Self { tokens, block, sizes, pieces: 0, better: false, fails_at: None }
    }
}

impl Source<Fake, Fake> for Text<'_> {
    type Error = &'static str;

    fn snapshot(&mut self) -> Result<Fake, &'static str> {
        Ok(Fake { tokens: self.tokens.to_vec(), size: self.sizes.1 })
    }

    fn piece(&mut self, index: usize) -> Result<Fake, &'static str> {
        if self.fails_at == Some(index) {
            return Err("a fault");
        }
        self.pieces += 1;
        let size = self.sizes.0 + usize::from(self.better);
        Ok(Fake { tokens: self.tokens[..(index + 1) * self.block].to_vec(), size })
    }

    fn improves(&self, _: usize, held: &Fake) -> bool {
        self.better && held.size == self.sizes.0
    }
}

/// Tokens take bytes, too: of a block twice four each.
const BLOCK: usize = 4;
const PIECE: usize = 100;
const NODE: usize = PIECE + 2 * BLOCK * 4;
const SNAPSHOT: usize = 1000;

fn insert(cache: &mut Cache, tokens: &[u32], mark: Mark) -> Inserted {
    cache.insert(tokens, mark, &mut Text::new(tokens, BLOCK, (PIECE, SNAPSHOT))).unwrap()
}

fn found(cache: &mut Cache, tokens: &[u32]) -> usize {
    cache.lookup(tokens).map_or(0, |hit| hit.len)
}

fn upto(len: u32) -> Vec<u32> {
    (0..len).collect()
}

#[test]
fn fault_064_the_same_text_twice_is_a_hit_as_far_as_it_was_saved() {
    let mut cache = Cache::new(BLOCK, 100_000);
    assert!(cache.lookup(&upto(20)).is_none());
    assert_eq!(insert(&mut cache, &upto(10), Mark::Boundary), Inserted::Kept);
    let hit = cache.lookup(&upto(20)).unwrap();
    assert_eq!((hit.len, hit.pieces.len()), (10, 2));
    assert_eq!(hit.pieces[1].tokens, upto(8));
    assert_eq!(hit.snapshot.tokens, upto(10));
    assert_eq!(cache.bytes(), 2 * NODE + SNAPSHOT + 2 * 4);
    assert_eq!(insert(&mut cache, &upto(10), Mark::Interval), Inserted::Known);
    assert_eq!(insert(&mut cache, &[], Mark::Interval), Inserted::Known);
    assert_eq!(cache.snapshots(), 1);
}

#[test]
fn what_is_saved_once_more_counts_as_used() {
    let mut cache = Cache::new(BLOCK, 2 * (SNAPSHOT + 8));
    for tokens in [[1, 1], [2, 2], [1, 1], [3, 3]] {
        insert(&mut cache, &tokens, Mark::Boundary);
    }
    let there = [1, 2, 3].map(|token| found(&mut cache, &[token; 3]));
    assert_eq!(there, [2, 0, 2]);
}

#[test]
fn fault_065_a_text_no_longer_than_the_snapshot_is_a_miss() {
    let mut cache = Cache::new(BLOCK, 100_000);
    for len in [3, 8, 9] {
        insert(&mut cache, &upto(len), Mark::Boundary);
    }
    let all: Vec<usize> = (1..12).map(|len| found(&mut cache, &upto(len))).collect();
    assert_eq!(all, [0, 0, 0, 3, 3, 3, 3, 3, 8, 9, 9]);
    let other = [0, 1, 2, 3, 4, 5, 6, 99, 8, 9, 10];
    assert_eq!(found(&mut cache, &other), 3);
    assert_eq!(found(&mut cache, &[0, 1, 9, 9, 9]), 0);
}

#[test]
fn fault_062_texts_that_part_share_what_they_have_in_common() {
    let mut cache = Cache::new(BLOCK, 100_000);
    let texts: Vec<Vec<u32>> = (0..3).map(|i| [&upto(8)[..], &[50 + i; 5]].concat()).collect();
    let mut asked = 0;
    for tokens in &texts {
        let mut text = Text::new(tokens, BLOCK, (PIECE, SNAPSHOT));
        cache.insert(tokens, Mark::Boundary, &mut text).unwrap();
        asked += text.pieces;
    }
    assert_eq!(asked, 2 + 3);
    assert_eq!(cache.bytes(), 5 * NODE + 3 * (SNAPSHOT + 4));
    for tokens in &texts {
        let hit = cache.lookup(&[&tokens[..], &[7]].concat()).unwrap();
        assert_eq!(&hit.snapshot.tokens, tokens);
        assert_eq!(hit.pieces[2].tokens, tokens[..12]);
    }
    // The common part itself was never saved: a fourth text finds nothing.
    assert_eq!(found(&mut cache, &[&upto(8)[..], &[1; 5]].concat()), 0);
}

#[test]
fn fault_070_nested_snapshots_go_first_and_boundaries_and_the_longest_stay() {
    // Six blocks, and room for three snapshots.
    let mut cache = Cache::new(BLOCK, 6 * NODE + 3 * (SNAPSHOT + 100));
    insert(&mut cache, &upto(4), Mark::Boundary);
    for len in [8, 12, 16, 20, 24] {
        assert_eq!(insert(&mut cache, &upto(len), Mark::Interval), Inserted::Kept);
    }
    let left: Vec<usize> = cache.entries.values().map(|entry| entry.len).collect();
    assert_eq!(left, [4, 20, 24]);
    // Not nested: the one that was used last stays.
    found(&mut cache, &upto(6));
    insert(&mut cache, &[9; 4], Mark::Interval);
    insert(&mut cache, &[8; 4], Mark::Interval);
    let left: BTreeSet<usize> = cache.entries.values().map(|entry| entry.len).collect();
    assert_eq!(left, BTreeSet::from([4]));
    assert_eq!(cache.snapshots(), 3);
}

#[test]
fn what_is_held_is_not_evicted_and_goes_when_it_is_let_go() {
    let mut cache = Cache::new(BLOCK, 2 * NODE + SNAPSHOT + 50);
    insert(&mut cache, &upto(8), Mark::Interval);
    let hit = cache.lookup(&upto(9)).unwrap();
    assert_eq!(insert(&mut cache, &[7; 4], Mark::Boundary), Inserted::NoRoom);
    assert_eq!(found(&mut cache, &upto(9)), 8);
    assert_eq!(cache.snapshots(), 1);
    // The snapshot may go, but the pieces are still held.
    let Hit { pieces, snapshot, .. } = hit;
    drop(snapshot);
    assert_eq!(insert(&mut cache, &[7; 4], Mark::Boundary), Inserted::NoRoom);
    assert_eq!((cache.snapshots(), cache.bytes()), (0, 2 * NODE));
    drop(pieces);
    assert_eq!(insert(&mut cache, &[7; 4], Mark::Boundary), Inserted::Kept);
    assert_eq!(cache.bytes(), NODE + SNAPSHOT);
    assert_eq!(cache.nodes.len(), 2);
}

#[test]
fn what_never_fits_evicts_nothing() {
    let mut cache = Cache::new(BLOCK, 4 * NODE + SNAPSHOT);
    insert(&mut cache, &upto(4), Mark::Boundary);
    let before = cache.bytes();
    assert_eq!(insert(&mut cache, &[5; 24], Mark::Boundary), Inserted::NoRoom);
    assert_eq!((cache.bytes(), cache.snapshots()), (before, 1));
    let mut none = Cache::new(BLOCK, 0);
    assert_eq!(insert(&mut none, &upto(3), Mark::Boundary), Inserted::NoRoom);
    assert_eq!(none.bytes(), 0);
}

#[test]
fn a_source_that_fails_leaves_nothing_behind() {
    let mut cache = Cache::new(BLOCK, 100_000);
    insert(&mut cache, &upto(8), Mark::Boundary);
    let (before, tokens) = (cache.bytes(), upto(30));
    let text = Text::new(&tokens, BLOCK, (PIECE, SNAPSHOT));
    let mut text = Text { fails_at: Some(5), ..text };
    assert_eq!(cache.insert(&tokens, Mark::Boundary, &mut text), Err("a fault"));
    assert_eq!((cache.bytes(), cache.nodes.len()), (before, 3));
}

#[test]
fn better_pieces_take_the_place_of_those_that_are_there() {
    let mut cache = Cache::new(BLOCK, 100_000);
    insert(&mut cache, &upto(8), Mark::Boundary);
    let held = cache.lookup(&upto(9)).unwrap();
    let tokens = upto(13);
    let mut text = Text { better: true, ..Text::new(&tokens, BLOCK, (PIECE, SNAPSHOT)) };
    cache.insert(&tokens, Mark::Boundary, &mut text).unwrap();
    assert_eq!(cache.bytes(), 3 * (NODE + 1) + 2 * SNAPSHOT + 4);
    assert!(held.pieces.iter().all(|piece| piece.size == PIECE), "whoever holds one keeps it");
    let hit = cache.lookup(&upto(14)).unwrap();
    assert!(hit.pieces.iter().all(|piece| piece.size == PIECE + 1));
}

#[test]
fn what_is_forgotten_is_not_found_again() {
    let mut cache = Cache::new(BLOCK, 100_000);
    insert(&mut cache, &upto(6), Mark::Boundary);
    insert(&mut cache, &upto(9), Mark::Boundary);
    let hit = cache.lookup(&upto(20)).unwrap();
    cache.forget(hit);
    assert_eq!(found(&mut cache, &upto(20)), 6);
    cache.clear();
    assert_eq!((cache.bytes(), found(&mut cache, &upto(20))), (0, 0));
}

/// A step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u32>, bool),
    /// A lookup whose answer is held, or let go at once.
    Lookup(Vec<u32>, bool),
    /// Lets the n-th of those held go.
    LetGo(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || proptest::collection::vec(0..2u32, 0..14);
    let step = prop_oneof![
        4 => (text(), any::<bool>()).prop_map(|(tokens, mark)| Step::Insert(tokens, mark)),
        4 => (text(), any::<bool>()).prop_map(|(tokens, hold)| Step::Lookup(tokens, hold)),
        2 => (0..4usize).prop_map(Step::LetGo),
    ];
    proptest::collection::vec(step, 1..60)
}

/// All tokens of every snapshot in the cache.
fn contents(cache: &Cache) -> BTreeSet<Vec<u32>> {
    cache.entries.values().map(|entry| entry.snapshot.tokens.clone()).collect()
}

fn check(cache: &Cache, held: &[Hit<Fake, Fake>]) {
    assert!(cache.bytes() <= cache.budget());
    let nodes: usize = cache.nodes.values().map(|node| node.bytes()).sum();
    let entries: usize = cache.entries.values().map(|entry| entry.bytes()).sum();
    assert_eq!(cache.bytes(), nodes + entries);
    for (id, node) in &cache.nodes {
        let leads_on = !node.children.is_empty() || !node.entries.is_empty();
        let is_root = node.piece.is_none();
        assert!(leads_on || is_root || cache.dead.contains(id), "node {id} leads nowhere");
        assert!(is_root || cache.nodes.contains_key(&node.parent));
    }
    for hit in held {
        let still = cache.entries.values().any(|e| Arc::ptr_eq(&e.snapshot, &hit.snapshot));
        assert!(still, "evicted while held: {:?}", hit.snapshot.tokens);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn like_a_plain_list_of_texts(steps in steps(), block in 1..4usize, budget in 0..2500usize) {
        let mut cache = Cache::new(block, budget);
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Insert(tokens, boundary) => {
                    let mark = if boundary { Mark::Boundary } else { Mark::Interval };
                    let before = contents(&cache);
                    let sizes = (30 + tokens.len(), 200 + 5 * tokens.len());
                    let mut text = Text::new(&tokens, block, sizes);
                    let inserted = cache.insert(&tokens, mark, &mut text).unwrap();
                    let mut expected = before.clone();
                    match inserted {
                        Inserted::Kept => {
                            prop_assert!(expected.insert(tokens.clone()));
                            prop_assert!(contents(&cache).contains(&tokens));
                        }
                        Inserted::Known => prop_assert!(
                            tokens.is_empty() || before.contains(&tokens)
                        ),
                        Inserted::NoRoom => prop_assert!(!before.contains(&tokens)),
                    }
                    prop_assert!(contents(&cache).is_subset(&expected));
                }
                Step::Lookup(tokens, hold) => {
                    let all = contents(&cache);
                    let fits = |s: &&Vec<u32>| s.len() < tokens.len() && tokens.starts_with(s);
                    let longest = all.iter().filter(fits).max_by_key(|s| s.len());
                    let hit = cache.lookup(&tokens);
                    prop_assert_eq!(hit.as_ref().map(|hit| &hit.snapshot.tokens), longest);
                    prop_assert_eq!(contents(&cache), all);
                    let Some(hit) = hit else { continue };
                    prop_assert_eq!(hit.len, hit.snapshot.tokens.len());
                    prop_assert_eq!(hit.pieces.len(), hit.len / block);
                    for (i, piece) in hit.pieces.iter().enumerate() {
                        prop_assert_eq!(&piece.tokens[..], &tokens[..(i + 1) * block]);
                    }
                    if hold {
                        held.push(hit);
                    }
                }
                Step::LetGo(n) if n < held.len() => drop(held.remove(n)),
                Step::LetGo(_) => {}
            }
            check(&cache, &held);
        }
    }
}
