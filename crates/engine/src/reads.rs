//! Bytes of weights that passes have to read: a few additions for each layer, so it is always on.
//!
//! What [`crate::timed`] finds by standing around every operation is added up here for a pass as a
//! whole, without a clock around each: for whoever watches an engine at work.

use std::time::Duration;

/// Weights that an engine had to read since it was made. States, keys and values are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightReads {
    /// Bytes, in the format of the file: what every token passes once for each window or step of
    /// drafting, of experts those in use, of the tables the rows of the tokens.
    pub bytes: u64,
    /// Time in windows and steps of drafting.
    pub time: Duration,
    /// Layers in which the device did not tell how many experts were in use. They are counted as if
    /// no two rows of a window shared one, which is the most that it can be.
    pub assumed: u64,
}

/// Bytes of a layer's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayerBytes {
    /// Of all that every token passes.
    pub(crate) dense: u64,
    /// Of one routed expert.
    pub(crate) expert: u64,
}

impl WeightReads {
    /// A layer of a window, of whose experts so many are in use, or at most `most`.
    pub(crate) fn layer(&mut self, bytes: LayerBytes, used: Option<usize>, most: usize) {
        self.assumed += u64::from(used.is_none());
        self.bytes += bytes.dense + used.unwrap_or(most) as u64 * bytes.expert;
    }
}
