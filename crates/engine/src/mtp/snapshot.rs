//! The drafting block's side of a saved state.
//!
//! Row r of its cache comes from the trunk's streams at position r and the token after it. So of
//! the first n tokens alone only n - 1 rows follow, and the rows that belong to a piece of the
//! sequence begin and end one row earlier than its tokens. Rows behind a gap, and a row made with a
//! token that was not the next one in the end, follow from more than the tokens: no other sequence
//! may get them, and the snapshot itself carries them.

use super::{Mtp, MtpSlot};
use crate::Error;
use crate::slots::LayerState;
use crate::snapshot::{Decoder, Encoder};
use crate::weights::Mixer;
use kernels::host::KvSlot;
use kernels::{Backend, QsaShape};
use std::ops::Range;

/// How far the block was, and what does not lie in pieces.
#[derive(Clone, Debug)]
pub(crate) struct MtpSnapshot {
    slot: MtpSlot,
    /// First row of `rows`; those before it are in pieces.
    pub(crate) first_row: usize,
    rows: KvSlot,
    /// Streams kept `[kept, S, H]`, oldest first.
    kept: Vec<f32>,
    /// Streams of the last draft `[S, H]`.
    chain: Vec<f32>,
}

impl MtpSnapshot {
    pub(crate) fn encode(&self, out: &mut Encoder) {
        let MtpSlot { len, kept, drafted, gap, ahead, .. } = self.slot;
        [len, kept, drafted].iter().for_each(|&number| out.number(number));
        out.option(gap);
        out.option(ahead.map(|token| token as usize));
        out.number(self.first_row);
        out.rows(&self.rows);
        out.values(&self.kept);
        out.values(&self.chain);
    }

    /// What was encoded; `None` for what no block can have been.
    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let (len, kept, drafted) = (from.number()?, from.number()?, from.number()?);
        let (gap, ahead) = (from.option()?, from.option()?);
        let ahead = match ahead {
            Some(token) => Some(u32::try_from(token).ok()?),
            None => None,
        };
        if gap.is_some_and(|gap| gap > len) || ahead.is_some() && len == 0 {
            return None;
        }
        let slot = MtpSlot { len, kept, drafted, gap, ahead, ..MtpSlot::default() };
        let (first_row, rows) = (from.number()?, from.rows()?);
        Some(Self { slot, first_row, rows, kept: from.values()?, chain: from.values()? })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + size_of_val(&self.kept[..]) + size_of_val(&self.chain[..])
    }
}

/// The rows of the block's cache that belong to the positions `tokens`.
pub(crate) fn rows_of(tokens: &Range<usize>) -> Range<usize> {
    tokens.start.saturating_sub(1)..tokens.end.saturating_sub(1)
}

impl<B: Backend> Mtp<B> {
    /// The leading rows of the slot's cache that follow from the sequence's tokens alone.
    pub(crate) fn exact_rows(&self, slot: usize) -> usize {
        let MtpSlot { len, gap, ahead, .. } = self.slots[slot];
        gap.unwrap_or(len).min(len - usize::from(ahead.is_some()))
    }

    /// The rows `rows` of the slot's cache.
    pub(crate) fn export_rows(
        &mut self,
        backend: &mut B,
        slot: usize,
        rows: Range<usize>,
    ) -> KvSlot {
        let (shape, state) = self.cache();
        backend.export_qsa_rows(&shape, state, slot, rows)
    }

    /// Puts rows that begin at `at` behind the first `at` rows of the slot's cache.
    pub(crate) fn import_rows(
        &mut self,
        backend: &mut B,
        slot: usize,
        piece: (usize, &KvSlot),
    ) -> Result<(), Error> {
        let (shape, state) = self.cache();
        Ok(backend.import_qsa_rows(&shape, state, slot, piece)?)
    }

    /// Everything of the slot but the cache's rows before `first_row`.
    pub(crate) fn export(
        &mut self,
        backend: &mut B,
        wide: usize,
        (slot, first_row): (usize, usize),
    ) -> Result<MtpSnapshot, Error> {
        let state = self.slots[slot];
        let rows = self.export_rows(backend, slot, first_row..state.len + state.drafted);
        let (mut kept, mut chain) = (vec![0.0; state.kept * wide], vec![0.0; wide]);
        self.gather_kept(backend, wide, slot, 0);
        backend.download(&self.x, &mut kept)?;
        backend.gather_rows(&self.chain, &[slot], wide, (&mut self.x, 0));
        backend.download(&self.x, &mut chain)?;
        Ok(MtpSnapshot { slot: state, first_row, rows, kept, chain })
    }

    /// Takes a snapshot over, behind the rows before its own.
    pub(crate) fn import(
        &mut self,
        backend: &mut B,
        wide: usize,
        (slot, from): (usize, &MtpSnapshot),
    ) -> Result<(), Error> {
        let kept = from.slot.kept;
        check("streams that fit", kept.min(self.kept_rows), kept)?;
        check("streams kept", from.kept.len(), kept * wide)?;
        check("streams of a draft", from.chain.len(), wide)?;
        let end = from.slot.len.saturating_add(from.slot.drafted);
        let (shape, _) = self.cache();
        let rows = from.first_row.saturating_add(from.rows.rows(&shape));
        check("rows of the drafting block", rows, end)?;
        self.import_rows(backend, slot, (from.first_row, &from.rows))?;

        backend.upload(&from.chain, &mut self.x);
        backend.gather_rows(&self.x, &[0], wide, (&mut self.chain, slot));
        backend.upload(&from.kept, &mut self.x);
        let rows: Vec<usize> = (0..kept).collect();
        backend.gather_rows(&self.x, &rows, wide, (&mut self.kept, slot * self.kept_rows));
        self.slots[slot] = MtpSlot { oldest: 0, ..from.slot };
        Ok(())
    }

    fn cache(&mut self) -> (QsaShape, &mut B::QsaState) {
        match (&self.weights.layer.mixer, &mut self.state) {
            (Mixer::Attention(attention), LayerState::Attention(state)) => (attention.shape, state),
            _ => unreachable!("a drafting block is read as an attention layer"),
        }
    }
}

fn check(what: &'static str, found: usize, want: usize) -> Result<(), Error> {
    if found == want { Ok(()) } else { Err(kernels::Error::StateSize { what, want, found }.into()) }
}
