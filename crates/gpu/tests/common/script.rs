//! Windows of a few slots in every way in which an engine may cut them, set rows aside and enter
//! them later. Whatever the way, a position's results must have the same bits.

use kernels::{Commit, Run, Window};

/// Tokens of each slot's sequence.
pub(crate) const TOKENS: usize = 40;

/// Slots of a state.
pub(crate) const SLOTS: usize = 3;

/// Rows that may be set aside.
pub(crate) const DEFERRED: usize = 5;

/// `slot: from..to, at once`.
fn now(slot: usize, first_pos: usize, to: usize) -> Run {
    let (first_row, replay, commit) = (0, 0, Commit::Now);
    Run { slot, first_row, len: to - first_pos, first_pos, replay, commit }
}

/// As [`now`], set aside, after `replay` rows of the last time.
fn later(slot: usize, first_pos: usize, to: usize, replay: usize) -> Run {
    Run { replay, commit: Commit::Deferred, ..now(slot, first_pos, to) }
}

/// As [`now`], after `replay` rows of the last time.
fn after(slot: usize, first_pos: usize, to: usize, replay: usize) -> Run {
    Run { replay, ..now(slot, first_pos, to) }
}

fn window(runs: &[Run]) -> Window {
    let mut window = Window::new();
    for run in runs {
        window.push_run(Run { first_row: window.rows(), ..*run });
    }
    window
}

/// Each takes slots 0 and 2 from nothing to [`TOKENS`]; the first is the plainest.
pub(crate) fn scripts() -> Vec<(&'static str, Vec<Window>)> {
    let all = TOKENS;
    let singly = (0..all).flat_map(|pos| [now(0, pos, pos + 1), now(2, pos, pos + 1)]);
    let together = (0..all).map(|pos| window(&[now(2, pos, pos + 1), now(0, pos, pos + 1)]));
    vec![
        ("at once", vec![window(&[now(0, 0, all), now(2, 0, all)])]),
        ("one by one", singly.map(|run| window(&[run])).collect()),
        ("one by one, together", together.collect()),
        (
            "2 to 8 rows",
            vec![
                window(&[now(2, 0, 2), now(0, 0, 3)]),
                window(&[now(0, 3, 7), now(2, 2, 7)]),
                window(&[now(2, 7, 13)]),
                window(&[now(2, 13, 20), now(0, 7, 15)]),
                window(&[now(2, 20, all)]),
                window(&[now(0, 15, all)]),
            ],
        ),
        (
            "chunks",
            vec![
                window(&[now(2, 0, 33), now(0, 0, 17)]),
                window(&[now(0, 17, all), now(2, 33, all)]),
            ],
        ),
        (
            "set aside",
            vec![
                // All, some, one and none of the rows count; others run beside them.
                window(&[now(0, 0, 2), later(2, 0, 5, 0)]),
                window(&[later(0, 2, 6, 0), later(2, 5, 9, 5)]),
                window(&[later(2, 7, 8, 2), after(0, 5, 20, 3)]),
                window(&[later(2, 7, 12, 0)]),
                window(&[now(0, 20, 21), later(2, 8, 10, 1)]),
                // Nothing but rows of the last time, then from the start of the same rows again.
                window(&[after(2, 10, 10, 2)]),
                window(&[later(0, 21, 26, 0), now(2, 10, 12)]),
                window(&[later(0, 26, 31, 5), now(2, 12, 30)]),
                window(&[after(0, 29, all, 3), later(2, 30, 33, 0)]),
                window(&[after(2, 33, all, 3)]),
            ],
        ),
    ]
}

/// Values that belong to positions of slots.
#[derive(Debug)]
pub(crate) struct Positions {
    /// Values of a position.
    width: usize,
    /// `[SLOTS, TOKENS, width]`.
    pub(crate) values: Vec<f32>,
}

impl Positions {
    pub(crate) fn new(width: usize, values: Vec<f32>) -> Self {
        assert_eq!(values.len(), SLOTS * TOKENS * width);
        Self { width, values }
    }

    pub(crate) fn unknown(width: usize) -> Self {
        Self::new(width, vec![0.0; SLOTS * TOKENS * width])
    }

    fn at(&mut self, slot: usize, pos: usize) -> &mut [f32] {
        &mut self.values[(slot * TOKENS + pos) * self.width..][..self.width]
    }

    /// The values of a slot.
    pub(crate) fn slot(&mut self, slot: usize) -> &mut [f32] {
        &mut self.values[slot * TOKENS * self.width..][..TOKENS * self.width]
    }

    /// Those of a window's rows.
    pub(crate) fn rows(&mut self, window: &Window) -> Vec<f32> {
        window.iter().flat_map(|(_, slot, pos)| self.at(slot, pos).to_vec()).collect()
    }

    /// Takes down what a window's rows gave.
    pub(crate) fn set(&mut self, window: &Window, rows: &[f32]) {
        let width = self.width;
        window.iter().for_each(|(row, slot, pos)| {
            self.at(slot, pos).copy_from_slice(&rows[row * width..][..width]);
        });
    }
}

/// Whether two results are as near as `bound` times the largest.
pub(crate) fn near(found: &[f32], want: &[f32], bound: f32) -> Result<(), String> {
    let largest = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    let off = found.iter().zip(want).map(|(f, w)| (f - w).abs()).fold(0f32, f32::max);
    let finite = found.iter().all(|x| x.is_finite());
    let same = found.len() == want.len() && finite && off <= bound * largest;
    if same { Ok(()) } else { Err(format!("off by {off:e} of {largest:e}")) }
}
