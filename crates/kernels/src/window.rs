//! The rows of one forward pass: which slot and position each of them belongs to.

/// Consecutive tokens of one slot inside a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The slot whose state the tokens read and advance.
    pub slot: usize,
    /// First row of the run in the window.
    pub first_row: usize,
    /// Number of rows, at least 1.
    pub len: usize,
    /// Position in the slot's sequence of the first row; the others follow.
    pub first_pos: usize,
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
        assert!(self.runs.iter().all(|r| r.slot != slot), "slot {slot} has a run already");
        self.runs.push(Run { slot, first_row: self.rows, len, first_pos });
        self.rows += len;
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
