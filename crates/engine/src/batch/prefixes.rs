//! Prompts that begin alike and come at the same time: one computes what they share and saves it,
//! the others wait for that and go on from there.

use super::job::Live;
use crate::cache::Mark;
use std::collections::VecDeque;

/// Tokens that have to be spared for waiting to be worth a saved state.
const WORTH: usize = 64;

/// Where a prompt saves its states, while it is being computed.
pub(super) type Points = VecDeque<(usize, Mark)>;

/// Lets the request on `new`, which has just got its slot, profit from the prompts that others are
/// computing: where the longest common beginning ends, the one that computes it saves its state.
pub(super) fn meet(slots: &mut [Option<Live>], new: usize) {
    let Some(own) = slots[new].as_ref() else { return };
    let (prompt, reused) = (own.answer.prompt(), own.prefill.reused);
    let ahead = slots.iter().enumerate().filter(|(slot, _)| *slot != new);
    let ahead = ahead.filter_map(|(slot, live)| Some((slot, live.as_ref()?)));
    let shared = ahead.filter_map(|(slot, live)| {
        let at = common(live.answer.prompt(), prompt);
        let spares = at >= reused + WORTH && at > live.prompt_done()?;
        spares.then_some((at, slot))
    });
    let Some((at, leader)) = shared.max_by_key(|(at, slot)| (*at, std::cmp::Reverse(*slot))) else {
        return;
    };
    if let Some(live) = &mut slots[leader] {
        add(&mut live.prefill.points, at);
    }
}

/// Whether the request on `slot` had better wait: one that came before it is computing, and going
/// to save, so much of its prompt that computing that again would be a waste.
pub(super) fn waits(slots: &[Option<Live>], slot: usize) -> bool {
    let Some(own) = slots[slot].as_ref().filter(|live| live.is_untouched()) else { return false };
    let prompt = own.answer.prompt();
    // The first of all never waits, so somebody always computes.
    let before = slots.iter().flatten().filter(|live| live.id < own.id);
    let mut before = before.filter(|live| live.prompt_done().is_some());
    before.any(|live| {
        let shared = common(live.answer.prompt(), prompt);
        let useful = live.prefill.points.iter().filter(|(at, _)| *at <= shared);
        useful.map(|(at, _)| *at).any(|at| at >= own.prefill.reused + WORTH)
    })
}

/// Adds a point at `at`, unless there is one that spares nearly as much.
fn add(points: &mut Points, at: usize) {
    let place = points.partition_point(|(point, _)| *point <= at);
    let near = place.checked_sub(1).is_some_and(|before| points[before].0 + WORTH > at);
    if !near {
        points.insert(place, (at, Mark::Interval));
    }
}

/// Tokens that both begin with, and that leave at least one of each to be computed.
fn common(a: &[u32], b: &[u32]) -> usize {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    same.min(a.len().min(b.len()).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_beginning_leaves_a_token_of_each() {
        assert_eq!(common(&[1, 2, 3], &[1, 2, 3]), 2);
        assert_eq!(common(&[1, 2, 3], &[1, 2]), 1);
        assert_eq!(common(&[1, 2, 3, 4], &[1, 2, 5, 4]), 2);
        assert_eq!(common(&[1], &[2]), 0);
        assert_eq!(common(&[], &[2]), 0);
    }

    #[test]
    fn a_point_is_added_where_none_is_near() {
        let mut points = Points::from([(10, Mark::Boundary), (300, Mark::Boundary)]);
        add(&mut points, 200);
        add(&mut points, 250);
        add(&mut points, 320);
        add(&mut points, 364);
        let at: Vec<usize> = points.iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [10, 200, 300, 364]);
    }
}
