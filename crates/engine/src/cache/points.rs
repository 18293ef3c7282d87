//! Where the state of a prompt is saved.

use super::{Mark, StateCache};

/// Where states are kept, and of which positions.
#[derive(Debug)]
pub struct Keep<'a> {
    /// The cache.
    pub cache: &'a mut StateCache,
    /// Positions in the prompt at which a message ends, rising: other texts may go on from there.
    pub boundaries: &'a [usize],
    /// Tokens of a long text from one snapshot to the next.
    pub every: usize,
}

impl<'a> Keep<'a> {
    /// Tokens between snapshots unless told otherwise.
    pub const EVERY: usize = 16 * 1024;

    /// Keeps states at `boundaries` of prompts, and at long intervals.
    pub fn at(cache: &'a mut StateCache, boundaries: &'a [usize]) -> Self {
        Self { cache, boundaries, every: Self::EVERY }
    }

    /// As [`points`].
    pub(crate) fn points(&self, done: usize, len: usize) -> Vec<(usize, Mark)> {
        points(self.boundaries, self.every, done, len)
    }
}

/// The positions of a prompt of `len` tokens whose state is saved, rising, those behind `done`
/// only: the first boundary (what all conversations share), the last two (where this one goes
/// on or is asked again), the intervals of `every`, and if no boundary is near, the last but one
/// token, which is the latest that the same prompt can go on from.
pub(crate) fn points(
    boundaries: &[usize],
    every: usize,
    done: usize,
    len: usize,
) -> Vec<(usize, Mark)> {
    const NEAR: usize = 64;
    let inside = |at: &usize| 0 < *at && *at < len;
    let all: Vec<usize> = boundaries.iter().copied().filter(inside).collect();
    let first_and_last = all.iter().take(1).chain(&all[all.len().saturating_sub(2)..]);
    let mut points: Vec<_> = first_and_last.map(|&at| (at, Mark::Boundary)).collect();
    if all.last().is_none_or(|&at| at + NEAR < len) {
        points.push((len.saturating_sub(1), Mark::Boundary));
    }
    let every = every.max(1);
    points.extend((1..=len / every).map(|i| (i * every, Mark::Interval)));
    points.retain(|(at, _)| done < *at && *at < len);
    // Of one position the boundary comes last and stays.
    points.sort_unstable();
    points.reverse();
    points.dedup_by_key(|(at, _)| *at);
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(boundaries: &[usize], done: usize, len: usize) -> Vec<(usize, Mark)> {
        let mut cache = StateCache::for_states(0);
        Keep { every: 100, ..Keep::at(&mut cache, boundaries) }.points(done, len)
    }

    #[test]
    fn first_and_last_boundaries_and_intervals() {
        use Mark::{Boundary, Interval};
        assert_eq!(points(&[], 0, 50), [(49, Boundary)]);
        assert_eq!(points(&[], 0, 1), []);
        assert_eq!(points(&[10, 20, 30, 40], 0, 50), [10, 30, 40].map(|at| (at, Boundary)));
        assert_eq!(points(&[10, 20, 30, 40], 30, 50), [(40, Boundary)]);
        assert_eq!(points(&[40], 40, 50), []);
        let long = [(40, Boundary), (100, Boundary), (200, Interval), (249, Boundary)];
        assert_eq!(points(&[40, 100], 0, 250), long);
        assert_eq!(points(&[0, 50, 99], 0, 50), [(49, Boundary)]);
    }
}
