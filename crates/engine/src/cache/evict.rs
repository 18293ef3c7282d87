//! What goes when room is short: snapshots one by one, each with the blocks that nothing else
//! needs.
//!
//! First those that were taken on the way through a longer text that is still there: it is found
//! from a later one as well. Then what was not used for the longest time, of one text the shortest
//! first.

use super::{Held, Mark, PromptCache};
use std::sync::Arc;

impl<P: Held, S: Held> PromptCache<P, S> {
    /// Evicts until `more` bytes fit; false if what is in use leaves no room.
    pub(super) fn make_room(&mut self, more: usize) -> bool {
        while self.bytes.saturating_add(more) > self.budget {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    /// Evicts something; false if all that is left is in use.
    fn evict(&mut self) -> bool {
        let before = self.bytes;
        for id in std::mem::take(&mut self.dead) {
            self.prune(id);
        }
        if self.bytes < before {
            return true;
        }
        let unused = self.entries.iter().filter(|(_, entry)| !entry.is_pinned());
        let rank = |id: u64| {
            let entry = &self.entries[&id];
            (!self.is_on_the_way(id), entry.used, entry.len)
        };
        let Some(id) = unused.map(|(id, _)| *id).min_by_key(|id| rank(*id)) else { return false };
        self.remove(id);
        true
    }

    /// Whether a snapshot is no message boundary, and another of a longer text lies behind it.
    fn is_on_the_way(&self, id: u64) -> bool {
        let entry = &self.entries[&id];
        let node = &self.nodes[&entry.node];
        let longer = |other: &u64| {
            let other = &self.entries[other];
            other.len > entry.len && other.tail.starts_with(&entry.tail)
        };
        // Every node leads to a snapshot.
        let behind = |tokens: &[u32]| tokens.starts_with(&entry.tail);
        entry.mark == Mark::Interval
            && (node.entries.iter().any(longer) || node.children.keys().any(|key| behind(key)))
    }

    /// Takes a snapshot out.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        self.bytes -= entry.bytes();
        if let Some(node) = self.nodes.get_mut(&entry.node) {
            node.entries.retain(|other| *other != id);
        }
        self.prune(entry.node);
    }

    /// Takes `id` and what leads to it out, as far as it leads nowhere else.
    pub(super) fn prune(&mut self, mut id: u64) {
        while let Some(node) = self.nodes.get(&id) {
            let Some(piece) = &node.piece else { return };
            if !node.children.is_empty() || !node.entries.is_empty() {
                return;
            }
            if Arc::strong_count(piece) > 1 {
                return self.dead.push(id);
            }
            let Some(parent) = self.unlink(id) else { return };
            id = parent;
        }
    }
}
