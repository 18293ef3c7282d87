//! A convolution over the columns of sequences that takes up the results of a product at once.

use super::waiting::{CallLimits, Products};
use super::{RowsOf, kernel_of};
use crate::buffer::Held;
use crate::constants::Place;
use crate::tile::Width;

/// What a kernel has to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conv {
    /// The product whose results are convolved.
    pub(crate) segment: u32,
    pub(crate) taps: u32,
    /// Values of a slot's state.
    pub(crate) slot_len: u32,
}

/// A convolution that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    pub(crate) conv: Conv,
    /// Rows of the window.
    pub(crate) rows: usize,
    /// What is convolved, `[rows, channels]`.
    pub(crate) m: Held,
    /// Where the result goes, the state, the taps.
    pub(crate) others: [Held; 3],
    /// Runs, which are among the constants, and how many.
    pub(crate) runs: (Place, u32),
}

impl Convolution {
    /// Storage buffers, with that of the runs.
    pub(super) const BINDINGS: usize = 4;
}

impl Products {
    /// The convolution with the product that makes its rows, if one waits that makes all of them in
    /// one tile, and the call has room for it.
    pub(crate) fn convolved(&self, asked: Convolution, limits: CallLimits) -> Option<Convolution> {
        let waiting = self.waiting();
        let segment = waiting.iter().position(|one| one.y == asked.m)?;
        let (one, source) = (&waiting[segment], &waiting[segment].source);
        let all = (one.work.y_first, one.work.weight_rows) == (0, one.work.y_width);
        let together = source.rows == RowsOf::Window
            && matches!(source.width, Width::Few(_))
            && (source.tiles, source.window_rows) == (1, asked.rows);
        let [out, state, _] = &asked.others;
        let apart = waiting.iter().all(|one| {
            one.y != *out && one.y != *state && one.reads().all(|read| read != out && read != state)
        });
        let conv = Conv { segment: segment as u32, ..asked.conv };
        let kernel = kernel_of(waiting.iter(), 0, Some(conv));
        let alone = waiting.iter().filter(|one| one.y == asked.m).count() == 1;
        let fits = all && together && apart && alone && limits.allow(&kernel);
        fits.then_some(Convolution { conv, ..asked })
    }
}
