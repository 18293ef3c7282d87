//! The tree: sequences cut into blocks of a fixed number of tokens, one node per block, so
//! sequences share the nodes of what they have in common. A snapshot hangs at the node of its last
//! whole block, with the tokens that follow up to its position.
//!
//! Whoever looks something up gets shares of it (`Arc`), not numbers: an entry cannot come to mean
//! something else, and what somebody still holds stays in the tree. Numbers of nodes and snapshots
//! are never used twice.

use super::{Held, Hit, Inserted, Mark, Source};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The node before the first block.
const ROOT: u64 = 0;

/// A cache of sequence states; `P` is what a block of tokens needs, `S` what a position needs.
#[derive(Debug)]
pub struct PromptCache<P, S> {
    pub(super) block: usize,
    pub(super) budget: usize,
    pub(super) bytes: usize,
    /// Rises with every use.
    clock: u64,
    /// The next number of a node or snapshot.
    next: u64,
    pub(super) nodes: HashMap<u64, Node<P>>,
    pub(super) entries: BTreeMap<u64, Entry<S>>,
    /// Nodes that lead nowhere but could not go, as somebody held their pieces.
    pub(super) dead: Vec<u64>,
}

/// A block of tokens behind those of its parent.
#[derive(Debug)]
pub(super) struct Node<P> {
    pub(super) parent: u64,
    tokens: Box<[u32]>,
    /// Absent at the root only.
    pub(super) piece: Option<Arc<P>>,
    pub(super) children: HashMap<Box<[u32]>, u64>,
    pub(super) entries: Vec<u64>,
}

/// A snapshot.
#[derive(Debug)]
pub(super) struct Entry<S> {
    pub(super) node: u64,
    /// Tokens behind the node's.
    pub(super) tail: Box<[u32]>,
    /// Tokens of the sequence.
    pub(super) len: usize,
    pub(super) mark: Mark,
    pub(super) used: u64,
    pub(super) snapshot: Arc<S>,
}

impl<P: Held> Node<P> {
    /// Bytes of the piece and of the tokens, which lie here and in the parent.
    pub(super) fn bytes(&self) -> usize {
        self.piece.as_ref().map_or(0, |piece| piece.bytes() + 2 * size_of_val(&self.tokens[..]))
    }
}

impl<S: Held> Entry<S> {
    pub(super) fn bytes(&self) -> usize {
        self.snapshot.bytes() + size_of_val(&self.tail[..])
    }

    /// Whether somebody uses it.
    pub(super) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.snapshot) > 1
    }
}

impl<P: Held, S: Held> PromptCache<P, S> {
    /// An empty cache for blocks of `block` tokens that never takes more than `budget` bytes.
    ///
    /// # Panics
    /// If a block has no tokens.
    pub fn new(block: usize, budget: usize) -> Self {
        assert!(block > 0, "a block has tokens");
        let parts = (None, HashMap::new(), Vec::new());
        let (piece, children, entries) = parts;
        let root = Node { parent: ROOT, tokens: Box::default(), piece, children, entries };
        Self {
            block,
            budget,
            bytes: 0,
            clock: 0,
            next: ROOT + 1,
            nodes: HashMap::from([(ROOT, root)]),
            entries: BTreeMap::new(),
            dead: Vec::new(),
        }
    }

    /// Bytes of everything in it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that it may take.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Number of snapshots.
    pub fn snapshots(&self) -> usize {
        self.entries.len()
    }

    /// Forgets everything; what somebody holds stays theirs.
    pub fn clear(&mut self) {
        let next = self.next;
        *self = Self { next, ..Self::new(self.block, self.budget) };
    }

    /// The longest saved beginning of `tokens` that leaves at least one of them to be computed.
    /// While the answer is held, nothing of it is evicted.
    pub fn lookup(&mut self, tokens: &[u32]) -> Option<Hit<P, S>> {
        let path = self.path(tokens);
        let ends = (1..).map(|depth| depth * self.block);
        let nodes = std::iter::once((ROOT, 0)).chain(path.iter().copied().zip(ends));
        let found = nodes.filter_map(|(node, done)| self.longest(node, &tokens[done..])).last();
        let entry = self.entries.get_mut(&found?)?;
        self.clock += 1;
        entry.used = self.clock;
        let (len, snapshot) = (entry.len, Arc::clone(&entry.snapshot));
        let pieces = path[..len / self.block].iter().filter_map(|id| self.piece(*id)).collect();
        Some(Hit { len, pieces, snapshot })
    }

    /// Saves the state after `tokens`, making room for it. What the cache has already is not asked
    /// of `source` again. If it does not fit, nothing of it stays.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn insert<F: Source<P, S>>(
        &mut self,
        tokens: &[u32],
        mark: Mark,
        source: &mut F,
    ) -> Result<Inserted, F::Error> {
        let (blocks, rest) = tokens.split_at(tokens.len() - tokens.len() % self.block);
        let mut path = self.path(blocks);
        let whole = path.len() == blocks.len() / self.block;
        if tokens.is_empty() || whole && self.renew(last(&path), rest, mark) {
            return Ok(Inserted::Known);
        }
        // What is held is not evicted: the path must not go while it grows.
        let mut held: Vec<_> = path.iter().filter_map(|id| self.piece(*id)).collect();
        let grown = self.grow((blocks, &mut path), &mut held, source);
        let inserted = match grown {
            Ok(Some(snapshot)) => self.hang((last(&path), rest, mark), tokens.len(), snapshot),
            Ok(None) => Ok(Inserted::NoRoom),
            Err(error) => Err(error),
        };
        drop(held);
        self.prune(last(&path));
        inserted
    }

    /// Forgets the snapshot that `hit` was found by.
    pub fn forget(&mut self, hit: Hit<P, S>) {
        let Hit { snapshot, pieces, .. } = hit;
        drop(pieces);
        let found = self.entries.iter().find(|(_, e)| Arc::ptr_eq(&e.snapshot, &snapshot));
        if let Some(id) = found.map(|(id, _)| *id) {
            self.remove(id);
        }
    }

    /// Nodes of the whole blocks at the beginning of `tokens`, as far as there are any.
    fn path(&self, tokens: &[u32]) -> Vec<u64> {
        let mut path = Vec::new();
        for block in tokens.chunks_exact(self.block) {
            match self.nodes[&last(&path)].children.get(block) {
                Some(child) => path.push(*child),
                None => break,
            }
        }
        path
    }

    fn piece(&self, node: u64) -> Option<Arc<P>> {
        self.nodes[&node].piece.clone()
    }

    /// The longest snapshot of `node` that is a proper beginning of what follows the node.
    fn longest(&self, node: u64, rest: &[u32]) -> Option<u64> {
        let tail = |id: &u64| &self.entries[id].tail;
        let fits = |id: &&u64| tail(id).len() < rest.len() && rest.starts_with(tail(id));
        self.nodes[&node].entries.iter().filter(fits).max_by_key(|id| tail(id).len()).copied()
    }

    /// Notes that a snapshot was wanted once more, if it is there.
    fn renew(&mut self, node: u64, rest: &[u32], mark: Mark) -> bool {
        let ids = &self.nodes[&node].entries;
        let Some(id) = ids.iter().find(|id| *self.entries[id].tail == *rest) else { return false };
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(id) {
            entry.used = self.clock;
            entry.mark = entry.mark.max(mark);
        }
        true
    }

    /// Takes the snapshot and makes the path to it whole; `None` if there is no room.
    fn grow<F: Source<P, S>>(
        &mut self,
        (blocks, path): (&[u32], &mut Vec<u64>),
        held: &mut Vec<Arc<P>>,
        source: &mut F,
    ) -> Result<Option<S>, F::Error> {
        let snapshot = source.snapshot()?;
        let known: usize = path.iter().map(|id| self.nodes[id].bytes()).sum();
        let need = known + snapshot.bytes();
        if need > self.budget {
            return Ok(None);
        }
        for (index, own) in held.iter_mut().enumerate() {
            if source.improves(index, own) {
                let piece = Arc::new(source.piece(index)?);
                if !self.replace(path[index], &piece) {
                    return Ok(None);
                }
                *own = piece;
            }
        }
        let missing = blocks.chunks_exact(self.block).skip(path.len());
        for (nth, tokens) in missing.enumerate() {
            let piece = Arc::new(source.piece(path.len())?);
            let bytes = piece.bytes() + 2 * size_of_val(tokens);
            // Pieces are of about one size: better to see now that they do not all fit.
            let all = blocks.len() / self.block - path.len() + nth;
            let too_much = nth == 0 && need.saturating_add(bytes.saturating_mul(all)) > self.budget;
            if too_much || !self.make_room(bytes) {
                return Ok(None);
            }
            held.push(Arc::clone(&piece));
            path.push(self.add_node(last(path), tokens, piece));
        }
        Ok(Some(snapshot))
    }

    /// Puts a better piece in place of that of `node`; false if there is no room.
    fn replace(&mut self, node: u64, piece: &Arc<P>) -> bool {
        let before = self.nodes[&node].piece.as_ref().map_or(0, |piece| piece.bytes());
        if !self.make_room(piece.bytes().saturating_sub(before)) {
            return false;
        }
        self.bytes = self.bytes - before + piece.bytes();
        if let Some(node) = self.nodes.get_mut(&node) {
            node.piece = Some(Arc::clone(piece));
        }
        true
    }

    fn add_node(&mut self, parent: u64, tokens: &[u32], piece: Arc<P>) -> u64 {
        let id = self.number();
        let (tokens, piece) = (Box::from(tokens), Some(piece));
        let (children, entries) = (HashMap::new(), Vec::new());
        let node = Node { parent, tokens, piece, children, entries };
        self.bytes += node.bytes();
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children.insert(node.tokens.clone(), id);
        }
        self.nodes.insert(id, node);
        id
    }

    /// Hangs a snapshot at the end of its path.
    fn hang<E>(
        &mut self,
        (node, rest, mark): (u64, &[u32], Mark),
        len: usize,
        snapshot: S,
    ) -> Result<Inserted, E> {
        self.clock += 1;
        let (tail, used, snapshot) = (Box::from(rest), self.clock, Arc::new(snapshot));
        let entry = Entry { node, tail, len, mark, used, snapshot };
        let bytes = entry.bytes();
        if !self.make_room(bytes) {
            return Ok(Inserted::NoRoom);
        }
        let id = self.number();
        if let Some(node) = self.nodes.get_mut(&node) {
            node.entries.push(id);
            self.entries.insert(id, entry);
            self.bytes += bytes;
        }
        Ok(Inserted::Kept)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Takes the node out of its parent.
    pub(super) fn unlink(&mut self, id: u64) -> Option<u64> {
        let node = self.nodes.remove(&id)?;
        self.bytes -= node.bytes();
        if let Some(parent) = self.nodes.get_mut(&node.parent) {
            parent.children.remove(&node.tokens);
        }
        Some(node.parent)
    }
}

/// The last node of a path from the root.
fn last(path: &[u64]) -> u64 {
    path.last().copied().unwrap_or(ROOT)
}
