//! The runs of a window as kernels are told of them: some words per run, or per chunk of its rows.

use kernels::window::MAX_DEFERRED;
use kernels::{Commit, Run, Window};

/// Words of a run; `shaders/runs.wgsl` reads them.
const WORDS: usize = 8;

/// The words, and of how many runs or chunks they are.
#[derive(Debug, Default)]
pub(crate) struct RunWords {
    pub(crate) words: Vec<u32>,
}

impl RunWords {
    /// Each run with the side on which its slot has rows set aside.
    pub(crate) fn of_runs(window: &Window, side: impl Fn(usize) -> u32) -> Self {
        let mut all = Self::default();
        window.runs().iter().for_each(|run| all.push(run, (0, run.len), side(run.slot)));
        all
    }

    /// The rows of each run in chunks that are no shorter than `history`, but for the last; one
    /// without rows where there are none. A run that is set aside is one chunk.
    pub(crate) fn of_chunks(window: &Window, history: usize) -> Self {
        let chunk = history.max(MAX_DEFERRED);
        let mut all = Self::default();
        for run in window.runs() {
            for first in (0..run.len.max(1)).step_by(chunk) {
                all.push(run, (first, chunk.min(run.len - first)), 0);
            }
        }
        all
    }

    /// Number of runs or chunks.
    pub(crate) fn len(&self) -> usize {
        self.words.len() / WORDS
    }

    fn push(&mut self, run: &Run, (first, rows): (usize, usize), side: u32) {
        let Run { slot, first_row, len, replay, commit, .. } = *run;
        let numbers = [slot, first_row, len, replay].map(|n| n as u32);
        self.words.extend(numbers);
        self.words.push(u32::from(commit == Commit::Deferred));
        self.words.extend([first as u32, rows as u32, side]);
    }
}

/// Asserts that a state with room for `deferred` rows of each of `slots` can take a window.
pub(crate) fn assert_room(window: &Window, slots: usize, deferred: usize) {
    for run in window.runs() {
        let aside = if run.commit == Commit::Deferred { run.len } else { 0 };
        let most = aside.max(run.replay);
        assert!(most <= deferred, "{most} rows to set aside, room for {deferred}");
        assert!(run.slot < slots, "slot {} of {slots}", run.slot);
    }
}
