//! Slots, and what is evicted from them.

use std::collections::{BTreeSet, HashMap};

/// Experts that are held, each with a key: the one with the smallest is evicted first.
pub(super) struct Pool<K> {
    slots: usize,
    keys: HashMap<u32, K>,
    order: BTreeSet<(K, u32)>,
}

impl<K: Ord + Copy> Pool<K> {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots, keys: HashMap::new(), order: BTreeSet::new() }
    }

    pub(super) fn holds(&self, expert: u32) -> bool {
        self.keys.contains_key(&expert)
    }

    pub(super) fn experts(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|&(_, expert)| expert)
    }

    /// Slots that are not in use if `aside` are kept for experts that were taken out.
    pub(super) fn free(&self, aside: usize) -> usize {
        self.slots.saturating_sub(self.order.len() + aside)
    }

    /// Takes an expert out, so that it cannot be evicted; none if it is not held.
    pub(super) fn take(&mut self, expert: u32) -> Option<K> {
        let key = self.keys.remove(&expert)?;
        self.order.remove(&(key, expert));
        Some(key)
    }

    /// Puts an expert in that is not held, even if no slot is free.
    pub(super) fn put(&mut self, expert: u32, key: K) {
        self.keys.insert(expert, key);
        self.order.insert((key, expert));
    }

    /// Evicts one expert; false if there is none.
    pub(super) fn evict(&mut self) -> bool {
        let Some((_, expert)) = self.order.pop_first() else { return false };
        self.keys.remove(&expert);
        true
    }

    /// Evicts what has no slot.
    pub(super) fn fit(&mut self) {
        self.shrink(self.slots);
    }

    /// Evicts until at most `most` experts are held.
    fn shrink(&mut self, most: usize) {
        while self.order.len() > most {
            self.evict();
        }
    }

    /// Gives these experts at once: the missing ones get slots from the others, and all get new
    /// keys, the last first. If they have no room all together, those with the smallest keys are
    /// dropped in the end. Returns how many were missing.
    pub(super) fn serve(&mut self, wanted: &[u32], mut key: impl FnMut(u32) -> K) -> usize {
        let missed = wanted.iter().filter(|&&expert| self.take(expert).is_none()).count();
        self.shrink(self.slots.saturating_sub(wanted.len()));
        for &expert in wanted.iter().rev() {
            let key = key(expert);
            self.put(expert, key);
        }
        self.fit();
        missed
    }
}
