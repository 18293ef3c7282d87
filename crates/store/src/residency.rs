//! Which experts have a slot, and which of them goes when slots run out. No memory is moved here:
//! numbers only.
//!
//! Slots are of several classes: of each layer, or of experts of one size. Of a class the expert
//! goes that was touched longest ago. Two kinds go before all others: what was expected and not
//! used, and what a prompt read in passing. A prompt uses all layers one after the other, again
//! with every portion; what it has just read is what it will use again last, so of those the newest
//! goes first. Experts that were there before a prompt go only while it reads more at once than it
//! has read yet.

use std::collections::BTreeMap;

/// How likely an expert is used again soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    /// As likely as anything in use.
    Warm,
    /// Less than anything that is warm.
    Cold,
}

/// Room for an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// A slot is free.
    Free,
    /// This expert can go.
    Evict(u32),
    /// Every slot is in use.
    Full,
}

/// Slots that some layers share.
#[derive(Debug, Default)]
struct Class {
    slots: usize,
    taken: usize,
    /// Experts that have a slot, the first to go first.
    order: BTreeMap<i64, u32>,
}

/// All slots, and the experts in them. An expert is a number.
#[derive(Debug)]
pub(crate) struct Residency {
    classes: Vec<Class>,
    /// The key of an expert in its class's order, while it is listed there.
    ticks: Vec<Option<i64>>,
    newest: i64,
    coldest: i64,
}

impl Residency {
    /// Nothing in `slots[class]` slots of each class; experts are numbered below `experts`.
    pub(crate) fn new(slots: &[usize], experts: usize) -> Self {
        let class = |&slots: &usize| Class { slots, ..Class::default() };
        let classes = slots.iter().map(class).collect();
        Self { classes, ticks: vec![None; experts], newest: 0, coldest: 0 }
    }

    /// Slots of a class.
    pub(crate) fn slots(&self, class: usize) -> usize {
        self.classes[class].slots
    }

    /// Experts of a class that are listed.
    pub(crate) fn listed(&self, class: usize) -> usize {
        self.classes[class].order.len()
    }

    /// Room for one more expert of `class`; what `keeps` says yes to stays.
    pub(crate) fn room(&self, class: usize, keeps: impl Fn(u32) -> bool) -> Room {
        let class = &self.classes[class];
        if class.taken < class.slots {
            return Room::Free;
        }
        class.order.values().find(|&&expert| !keeps(expert)).map_or(Room::Full, |&e| Room::Evict(e))
    }

    /// Takes a free slot for an expert that is being read. It cannot go before it is listed.
    pub(crate) fn take(&mut self, class: usize) {
        let class = &mut self.classes[class];
        assert!(class.taken < class.slots, "a slot was taken that is not free");
        class.taken += 1;
    }

    /// Gives back the slot of an expert, listed or not.
    pub(crate) fn free(&mut self, class: usize, expert: u32) {
        let class = &mut self.classes[class];
        if let Some(tick) = self.ticks[expert as usize].take() {
            class.order.remove(&tick);
        }
        class.taken -= 1;
    }

    /// Lists an expert that has a slot, or moves it in the order.
    pub(crate) fn touch(&mut self, class: usize, expert: u32, heat: Heat) {
        let tick = match heat {
            Heat::Warm => {
                self.newest += 1;
                self.newest
            }
            Heat::Cold => {
                self.coldest -= 1;
                self.coldest
            }
        };
        let order = &mut self.classes[class].order;
        if let Some(old) = self.ticks[expert as usize].replace(tick) {
            order.remove(&old);
        }
        order.insert(tick, expert);
    }

    /// Whether an expert is listed, and would go before any that is warm.
    pub(crate) fn is_cold(&self, expert: u32) -> bool {
        self.ticks[expert as usize].is_some_and(|tick| tick < 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(residency: &mut Residency, class: usize, expert: u32, heat: Heat) -> Option<u32> {
        let gone = match residency.room(class, |_| false) {
            Room::Evict(gone) => {
                residency.free(class, gone);
                Some(gone)
            }
            Room::Free => None,
            Room::Full => panic!("full"),
        };
        residency.take(class);
        residency.touch(class, expert, heat);
        gone
    }

    #[test]
    fn the_one_touched_longest_ago_goes() {
        let mut r = Residency::new(&[3], 10);
        for expert in [1, 2, 3] {
            assert_eq!(fill(&mut r, 0, expert, Heat::Warm), None);
        }
        r.touch(0, 1, Heat::Warm);
        assert_eq!(r.room(0, |e| e == 2), Room::Evict(3));
        assert_eq!(r.room(0, |_| true), Room::Full);
        assert_eq!(fill(&mut r, 0, 4, Heat::Warm), Some(2));
        assert_eq!(fill(&mut r, 0, 5, Heat::Warm), Some(3));
        assert_eq!(fill(&mut r, 0, 6, Heat::Warm), Some(1));
        assert_eq!((r.listed(0), r.slots(0)), (3, 3));
    }

    #[test]
    fn cold_ones_go_first_and_the_newest_of_them_before_the_others() {
        let mut r = Residency::new(&[4], 10);
        fill(&mut r, 0, 0, Heat::Warm);
        fill(&mut r, 0, 1, Heat::Cold);
        fill(&mut r, 0, 2, Heat::Cold);
        fill(&mut r, 0, 3, Heat::Warm);
        assert!(r.is_cold(1) && !r.is_cold(3) && !r.is_cold(9));
        assert_eq!(fill(&mut r, 0, 4, Heat::Warm), Some(2));
        assert_eq!(fill(&mut r, 0, 5, Heat::Warm), Some(1));
        assert_eq!(fill(&mut r, 0, 6, Heat::Warm), Some(0));
    }

    #[test]
    fn a_scan_over_more_than_fits_keeps_what_it_found() {
        // Ten experts in a circle, six slots: by age alone none would ever be found again.
        let mut r = Residency::new(&[6], 10);
        let mut held = [false; 10];
        let mut found = 0;
        for step in 0..100_u32 {
            let expert = step % 10;
            if held[expert as usize] {
                found += usize::from(step >= 10);
                continue;
            }
            if let Some(gone) = fill(&mut r, 0, expert, Heat::Cold) {
                held[gone as usize] = false;
            }
            held[expert as usize] = true;
        }
        assert!(found >= 45, "{found} of 90");
    }

    #[test]
    fn classes_have_slots_of_their_own() {
        let mut r = Residency::new(&[1, 1], 4);
        fill(&mut r, 0, 0, Heat::Warm);
        assert_eq!(r.room(1, |_| false), Room::Free);
        fill(&mut r, 1, 1, Heat::Warm);
        assert_eq!(r.room(0, |_| false), Room::Evict(0));
        assert_eq!(r.room(1, |_| false), Room::Evict(1));
    }
}
