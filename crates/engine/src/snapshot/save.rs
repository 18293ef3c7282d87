//! Taking pieces and snapshots of a slot.

use super::{Identity, PIECE_TOKENS, Piece, Snapshot};
use crate::mtp::rows_of;
use crate::slots::LayerState;
use crate::weights::Mixer;
use crate::{Engine, Error};
use kernels::Backend;
use std::ops::Range;

impl<B: Backend> Engine<B> {
    /// The state of `slot` where it is now, but for what its whole pieces hold. What was accepted
    /// of tokens on trial is entered first.
    ///
    /// # Errors
    /// As for [`Engine::settle`]; a device fault.
    pub fn snapshot(&mut self, slot: usize) -> Result<Snapshot, Error> {
        self.settle(slot)?;
        let len = self.slots.tokens(slot).len();
        let mut gdn = Vec::new();
        for state in &self.slots.layers {
            if let LayerState::Gdn(state) = state {
                gdn.push(self.backend.export_gdn(state, slot));
            }
        }
        let ple = self.slots.ple.as_ref().map(|state| self.backend.export_ple(state, slot));
        let tail = self.rows(slot, len - len % PIECE_TOKENS..len);
        let wide = self.weights.hc.streams * self.weights.hc.width;
        // Rows that whole pieces hold are not held twice.
        let pieces = self.pieces_with_mtp(slot);
        let mtp = match &mut self.mtp {
            Some(mtp) => {
                let first_row = rows_of(&(0..pieces * PIECE_TOKENS)).end;
                Some(mtp.export(&mut self.backend, wide, (slot, first_row))?)
            }
            None => None,
        };
        Ok(Snapshot { identity: self.identity(slot, len), len, gdn, ple, tail, mtp })
    }

    /// The piece number `index` of `slot`.
    ///
    /// # Errors
    /// As for [`Engine::settle`]; [`Error::NoSuchPiece`] unless its last token has been processed.
    pub fn piece(&mut self, slot: usize, index: usize) -> Result<Piece, Error> {
        self.settle(slot)?;
        let (pieces, tokens) = (self.pieces(slot), piece_tokens(index));
        if index >= pieces {
            return Err(Error::NoSuchPiece { index, pieces });
        }
        let mut piece = self.rows(slot, tokens.clone());
        let with_mtp = self.pieces_with_mtp(slot);
        if let Some(mtp) = self.mtp.as_mut().filter(|_| index < with_mtp) {
            piece.mtp = Some(mtp.export_rows(&mut self.backend, slot, rows_of(&tokens)));
        }
        Ok(piece)
    }

    /// Whole pieces of `slot` that would come with the drafting block's rows.
    pub(crate) fn pieces_with_mtp(&self, slot: usize) -> usize {
        let rows = self.mtp.as_ref().map_or(0, |mtp| mtp.exact_rows(slot));
        self.pieces(slot).min((rows + 1) / PIECE_TOKENS)
    }

    fn pieces(&self, slot: usize) -> usize {
        self.slots.tokens(slot).len() / PIECE_TOKENS
    }

    /// The attention layers' rows of the positions `rows`.
    fn rows(&mut self, slot: usize, rows: Range<usize>) -> Piece {
        let mut layers = Vec::new();
        for (weights, state) in self.weights.layers.iter().zip(&self.slots.layers) {
            if let (Mixer::Attention(attention), LayerState::Attention(state)) =
                (&weights.mixer, state)
            {
                let shape = &attention.shape;
                layers.push(self.backend.export_qsa_rows(shape, state, slot, rows.clone()));
            }
        }
        let identity = self.identity(slot, rows.end);
        let tokens = self.slots.tokens(slot)[rows].to_vec();
        Piece { identity, tokens, layers, mtp: None }
    }

    fn identity(&mut self, slot: usize, len: usize) -> Identity {
        Identity { model: self.fingerprint, tokens: self.slots.print(slot, len) }
    }
}

/// Positions of the piece number `index`.
pub(super) fn piece_tokens(index: usize) -> Range<usize> {
    let start = index.saturating_mul(PIECE_TOKENS);
    start..start.saturating_add(PIECE_TOKENS)
}
