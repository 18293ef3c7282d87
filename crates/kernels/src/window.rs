//! The rows of one forward pass: which slot and position each of them belongs to.

/// When the rows of a run enter the recurrent states (delta rule, convolution histories), which
/// cannot be wound back. Keys and values are shortened by length and need no such choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// At once.
    #[default]
    Now,
    /// Not yet: the states stay as they are before the run's first row, and the inputs of the rows
    /// are set aside. The slot's next run says in [`Run::replay`] how many of them count.
    Deferred,
}

/// Most rows of a deferred run.
pub const MAX_DEFERRED: usize = 16;

/// Consecutive tokens of one slot inside a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The slot whose state the tokens read and advance.
    pub slot: usize,
    /// First row of the run in the window.
    pub first_row: usize,
    /// Number of rows; 0 only in a run that does nothing but replay.
    pub len: usize,
    /// Position in the slot's sequence of the first row; the others follow.
    pub first_pos: usize,
    /// Rows set aside by the slot's last run that enter the states before the first row, by the
    /// same steps as if they had at once; the rest of those set aside is forgotten.
    pub replay: usize,
    /// When the rows enter the states.
    pub commit: Commit,
}

impl Run {
    /// Rows of the run in the window.
    pub fn rows(&self) -> std::ops::Range<usize> {
        self.first_row..self.first_row + self.len
    }

    /// Position of window row `row`.
    pub fn pos(&self, row: usize) -> usize {
        self.first_pos + (row - self.first_row)
    }
}

/// The rows of one forward pass, as runs in row order; a slot has at most one run.
#[derive(Clone, Debug, Default)]
pub struct Window {
    runs: Vec<Run>,
    rows: usize,
}

impl Window {
    /// An empty window.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `len` rows of `slot`, the first of them at `first_pos`.
    ///
    /// # Panics
    /// If `len` is 0 or the slot already has a run: its state could not be read at two lengths.
    pub fn push(&mut self, slot: usize, first_pos: usize, len: usize) {
        assert!(len > 0, "a run has at least one row");
        let (first_row, replay, commit) = (self.rows, 0, Commit::Now);
        self.push_run(Run { slot, first_row, len, first_pos, replay, commit });
    }

    /// Appends `run`, which must start at the window's end.
    ///
    /// # Panics
    /// If it starts elsewhere, has nothing to do, or its slot has a run already.
    pub fn push_run(&mut self, run: Run) {
        assert_eq!(run.first_row, self.rows, "runs are in row order");
        assert!(run.len + run.replay > 0, "a run has rows, or some to replay");
        let deferred = if run.commit == Commit::Deferred { run.len } else { 0 };
        assert!(deferred.max(run.replay) <= MAX_DEFERRED, "too many deferred rows");
        let slot = run.slot;
        assert!(self.runs.iter().all(|r| r.slot != slot), "slot {slot} has a run already");
        self.rows += run.len;
        self.runs.push(run);
    }

    /// The runs, in row order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Number of rows (T).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `(row, slot, position)` of every row, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.runs.iter().flat_map(|r| r.rows().map(move |row| (row, r.slot, r.pos(row))))
    }

    /// Forgets all rows, keeping the allocation.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.rows = 0;
    }
}
