//! Putting a saved state into a slot.

use super::save::piece_tokens;
use super::{Identity, PIECE_TOKENS, Piece, Snapshot};
use crate::fingerprint::Fingerprint;
use crate::mtp::rows_of;
use crate::slots::LayerState;
use crate::weights::Mixer;
use crate::{Engine, Error};
use kernels::Backend;
use kernels::host::KvSlot;
use std::borrow::Borrow;

impl<B: Backend> Engine<B> {
    /// Makes `slot` the sequence that `snapshot` was taken of: afterwards it is to the bit the slot
    /// that computed these tokens itself, the drafting block included. `pieces` are those before
    /// the snapshot, in order; those that the slot holds itself, since its sequence begins with the
    /// same tokens, are not copied.
    ///
    /// # Errors
    /// [`Error::NoSlot`], which changes nothing; [`Error::ForeignState`] and [`Error::WrongPieces`]
    /// for what does not belong to this model or together; [`Error::ContextFull`]; a lack of
    /// memory. The slot is a fresh sequence then.
    pub fn restore<P: Borrow<Piece>>(
        &mut self,
        slot: usize,
        pieces: &[P],
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        self.check_slot(slot)?;
        let result = self.check_restore(pieces, snapshot).and_then(|tokens| {
            let shared = self.shared_pieces(slot, &tokens);
            self.put((slot, shared), pieces, snapshot)?;
            self.slots.replace(slot, tokens);
            Ok(())
        });
        if result.is_err() {
            self.reset(slot)?;
        }
        result
    }

    /// Whole pieces of `tokens` whose rows the slot holds.
    fn shared_pieces(&self, slot: usize, tokens: &[u32]) -> usize {
        if self.slots.is_broken(slot) {
            return 0;
        }
        let pairs = self.slots.tokens(slot).iter().zip(tokens);
        pairs.take_while(|(own, token)| own == token).count() / PIECE_TOKENS
    }

    /// Checks that everything belongs to this engine and together; all tokens.
    pub(crate) fn check_restore<P: Borrow<Piece>>(
        &self,
        pieces: &[P],
        snapshot: &Snapshot,
    ) -> Result<Vec<u32>, Error> {
        let all = pieces.iter().map(Borrow::borrow).chain([&snapshot.tail]);
        let model = self.fingerprint;
        let foreign = |identity: &Identity| identity.model != model;
        if foreign(&snapshot.identity) || all.clone().any(|piece| foreign(&piece.identity)) {
            return Err(Error::ForeignState);
        }
        // An engine may have put its drafting block aside.
        if snapshot.mtp.is_some() != self.mtp.is_some() {
            return Err(Error::ForeignState);
        }
        let (found, want) = (pieces.len(), snapshot.pieces());
        if found != want {
            return Err(Error::WrongPieces { index: found.min(want), found, want });
        }
        let (tokens, context) = (snapshot.len, self.config.context);
        if tokens > context {
            return Err(Error::ContextFull { tokens, context });
        }
        let (mut print, mut tokens) = (Fingerprint::new(), Vec::new());
        for (index, piece) in all.enumerate() {
            print.add_tokens(&piece.tokens);
            tokens.extend_from_slice(&piece.tokens);
            let length = index < want && tokens.len() != piece_tokens(index).end;
            if length || piece.identity.tokens != print {
                return Err(Error::WrongPieces { index, found, want });
            }
        }
        if tokens.iter().any(|&token| token as usize >= self.hp.vocab) {
            return Err(Error::ForeignState);
        }
        let fits = tokens.len() == snapshot.len && snapshot.identity.tokens == print;
        if fits { Ok(tokens) } else { Err(Error::WrongPieces { index: want, found, want }) }
    }

    /// Copies everything into the states of a slot but the first `shared` pieces.
    fn put<P: Borrow<Piece>>(
        &mut self,
        (slot, shared): (usize, usize),
        pieces: &[P],
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        self.slots.reserve_len(&mut self.backend, &self.weights, slot, snapshot.len)?;
        self.put_recurrent(slot, snapshot)?;
        for (index, piece) in pieces.iter().map(Borrow::borrow).enumerate().skip(shared) {
            self.put_rows(slot, (piece_tokens(index).start, piece))?;
        }
        let tail = piece_tokens(pieces.len()).start;
        self.put_rows(slot, (tail, &snapshot.tail))?;

        let (Some(mtp), Some(from)) = (&mut self.mtp, &snapshot.mtp) else { return Ok(()) };
        mtp.reserve(&mut self.backend, slot, snapshot.len)?;
        let exact = mtp.exact_rows(slot);
        for (index, piece) in pieces.iter().map(Borrow::borrow).enumerate() {
            let rows = rows_of(&piece_tokens(index));
            if rows.end > from.first_row {
                break;
            }
            if index < shared && rows.end <= exact {
                continue;
            }
            let (found, want) = (pieces.len(), snapshot.pieces());
            let own = piece.mtp.as_ref().ok_or(Error::WrongPieces { index, found, want })?;
            mtp.import_rows(&mut self.backend, slot, (rows.start, own))?;
        }
        let wide = self.weights.hc.streams * self.weights.hc.width;
        mtp.import(&mut self.backend, wide, (slot, from))
    }

    fn put_recurrent(&mut self, slot: usize, snapshot: &Snapshot) -> Result<(), Error> {
        let mut saved = snapshot.gdn.iter();
        for state in &mut self.slots.layers {
            if let LayerState::Gdn(state) = state {
                let from = saved.next().ok_or(Error::ForeignState)?;
                self.backend.import_gdn(state, slot, from)?;
            }
        }
        match (&mut self.slots.ple, &snapshot.ple) {
            (Some(state), Some(from)) => Ok(self.backend.import_ple(state, slot, from)?),
            (None, None) => Ok(()),
            _ => Err(Error::ForeignState),
        }
    }

    /// Puts the attention layers' rows of a piece in, the first of them at position `at`.
    fn put_rows(&mut self, slot: usize, (at, piece): (usize, &Piece)) -> Result<(), Error> {
        let mut saved = piece.layers.iter();
        for (weights, state) in self.weights.layers.iter().zip(&mut self.slots.layers) {
            if let (Mixer::Attention(attention), LayerState::Attention(state)) =
                (&weights.mixer, state)
            {
                let from: &KvSlot = saved.next().ok_or(Error::ForeignState)?;
                let shape = &attention.shape;
                let rows = (from.rows(shape), piece.tokens.len());
                if rows.0 != rows.1 {
                    return Err(Error::ForeignState);
                }
                self.backend.import_qsa_rows(shape, state, slot, (at, from))?;
            }
        }
        Ok(())
    }
}
