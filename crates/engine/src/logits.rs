//! The logits of a window's wanted rows: all of a row, or only its largest where these are enough.

use crate::sampling::Short;
use kernels::head::Best;

/// Rows of logits in the order of the feeds.
#[derive(Debug, Default)]
pub(crate) struct LogitRows {
    /// The whole rows, one after the other.
    pub(crate) all: Vec<f32>,
    rows: Vec<Option<Best>>,
}

/// The logits of a row.
#[derive(Debug)]
pub(crate) enum RowLogits<'a> {
    /// All of them.
    All(&'a mut [f32]),
    /// The largest, which are enough for the draw that they are for.
    Best(&'a Best),
}

/// Rows of logits that went to the host so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogitCounts {
    /// As a whole.
    pub whole: u64,
    /// As a list of the largest.
    pub lists: u64,
}

impl LogitCounts {
    /// Counts the rows of a window.
    pub(crate) fn add(&mut self, rows: &LogitRows) {
        let lists = rows.rows.iter().flatten().count();
        self.lists += lists as u64;
        self.whole += (rows.rows.len() - lists) as u64;
    }
}

impl LogitRows {
    /// Drops everything and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.rows.clear();
    }

    /// Room for `count` whole rows more of `width` values.
    pub(crate) fn whole(&mut self, count: usize, width: usize) -> &mut [f32] {
        self.rows.extend((0..count).map(|_| None));
        let start = self.all.len();
        self.all.resize(start + count * width, 0.0);
        &mut self.all[start..]
    }

    /// Adds rows of which lists are enough.
    pub(crate) fn add_lists(&mut self, lists: impl Iterator<Item = Best>) {
        self.rows.extend(lists.map(Some));
    }

    /// The rows, whole ones of `width` values.
    pub(crate) fn iter(&mut self, width: usize) -> impl Iterator<Item = RowLogits<'_>> {
        let mut all = self.all.chunks_exact_mut(width);
        self.rows.iter().map_while(move |row| match row {
            Some(best) => Some(RowLogits::Best(best)),
            None => all.next().map(RowLogits::All),
        })
    }
}

/// The lists of all rows, if each is enough for its draw.
pub(crate) fn enough(lists: Vec<Option<Best>>, draws: &[Option<Short>]) -> Option<Vec<Best>> {
    let pairs = lists.into_iter().zip(draws);
    pairs.map(|(best, draw)| best.filter(|best| draw.is_some_and(|d| d.is_enough(best)))).collect()
}
