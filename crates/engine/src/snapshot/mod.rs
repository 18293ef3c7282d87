//! The state of a sequence outside its slot: to be put back later, into any slot of the same model.
//!
//! It has two parts. *Pieces* hold what grows with the length: the attention layers' rows of
//! [`PIECE_TOKENS`] tokens each. They depend on the tokens up to their end and on nothing else, so
//! sequences that begin alike share them. A [`Snapshot`] holds the rest at one exact position: the
//! recurrent states, which cannot be wound back, and the rows of the piece that was not complete.

mod encode;
mod restore;
mod save;

pub(crate) use encode::{Decoder, Encoder};

use crate::fingerprint::Fingerprint;
use crate::mtp::MtpSnapshot;
use kernels::gdn::GdnSlot;
use kernels::host::KvSlot;

/// Tokens of a piece.
pub const PIECE_TOKENS: usize = 64;

/// The attention layers' rows of some consecutive tokens.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The model, and all tokens up to the end.
    identity: Identity,
    tokens: Vec<u32>,
    /// Rows of each attention layer.
    layers: Vec<KvSlot>,
    /// Rows of the drafting block, where they follow from the tokens alone.
    mtp: Option<KvSlot>,
}

/// The state at one position of a sequence, without what lies in whole pieces before it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The model, and all tokens.
    identity: Identity,
    /// All tokens of the sequence.
    len: usize,
    gdn: Vec<GdnSlot>,
    ple: Option<Vec<f32>>,
    /// What follows the last whole piece.
    tail: Piece,
    mtp: Option<MtpSnapshot>,
}

/// What a state follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    model: Fingerprint,
    tokens: Fingerprint,
}

impl Piece {
    /// Its tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Whether it holds the rows of the drafting block, too.
    pub fn has_mtp(&self) -> bool {
        self.mtp.is_some()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let rows = self.layers.iter().chain(&self.mtp).map(KvSlot::bytes).sum::<usize>();
        rows + size_of_val(&self.tokens[..])
    }
}

impl Snapshot {
    /// Tokens of the sequence.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is that of a fresh sequence.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whole pieces that belong before it.
    pub fn pieces(&self) -> usize {
        self.len / PIECE_TOKENS
    }

    /// Its tokens behind the last whole piece.
    pub(crate) fn tail_tokens(&self) -> &[u32] {
        &self.tail.tokens
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let of = |values: &[f32]| size_of_val(values);
        let gdn: usize = self.gdn.iter().map(|slot| of(&slot.s) + of(&slot.conv)).sum();
        let ple = self.ple.as_ref().map_or(0, |history| of(history));
        gdn + ple + self.tail.bytes() + self.mtp.as_ref().map_or(0, MtpSnapshot::bytes)
    }
}
