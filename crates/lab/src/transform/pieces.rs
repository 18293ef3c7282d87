//! What is done, journalled and checked as one: some rows of a tensor.

use std::ops::Range;

use super::target::Target;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Keep what is done, and stop.
    Stop,
}

/// Some rows of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index into the target's places.
    pub(crate) tensor: usize,
    pub(crate) rows: Range<u64>,
}

/// The pieces of a target in order, of about `piece_bytes` and at least one row.
pub(crate) fn pieces(target: &Target, piece_bytes: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (tensor, place) in target.places.iter().enumerate() {
        let step = (piece_bytes / place.row_bytes.max(1)).max(1);
        let mut first = 0;
        while first < place.rows {
            let end = first.saturating_add(step).min(place.rows);
            pieces.push(Piece { tensor, rows: first..end });
            first = end;
        }
    }
    pieces
}

impl Piece {
    /// First byte in the file, and number of bytes.
    pub(crate) fn span(&self, target: &Target) -> (u64, u64) {
        let place = &target.places[self.tensor];
        let start = place.start + self.rows.start * place.row_bytes;
        (start, (self.rows.end - self.rows.start) * place.row_bytes)
    }
}
