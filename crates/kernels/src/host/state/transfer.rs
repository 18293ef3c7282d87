//! States of a slot on their way out of and into the memory of a device: what a prompt cache keeps.
//!
//! Keys and values travel decoded; encoded again they are the same bits. Everything else is copied
//! as it is stored. What comes in is checked before anything changes: it may stem from another model.

use super::{GdnState, KvSlot, PleState, QsaState};
use crate::gdn::GdnSlot;
use crate::{Error, QsaShape};
use std::ops::Range;

/// An error unless `found` values are as many as the state has.
fn check(what: &'static str, found: usize, want: usize) -> Result<(), Error> {
    if found == want { Ok(()) } else { Err(Error::StateSize { what, want, found }) }
}

impl GdnState {
    /// Puts a copy of another slot's state in place of that of `slot`.
    ///
    /// # Errors
    /// [`Error::StateSize`]; the slot is as it was then.
    pub fn import(&mut self, slot: usize, from: &GdnSlot) -> Result<(), Error> {
        check("a delta-rule state", from.s.len(), self.s_len)?;
        check("a convolution history", from.conv.len(), self.conv_len)?;
        self.s[slot * self.s_len..][..self.s_len].copy_from_slice(&from.s);
        self.conv[slot * self.conv_len..][..self.conv_len].copy_from_slice(&from.conv);
        Ok(())
    }
}

impl PleState {
    /// Puts a copy of another slot's history in place of that of `slot`.
    ///
    /// # Errors
    /// [`Error::StateSize`]; the slot is as it was then.
    pub fn import(&mut self, slot: usize, from: &[f32]) -> Result<(), Error> {
        check("an n-gram convolution history", from.len(), self.len)?;
        self.conv[slot * self.len..][..self.len].copy_from_slice(from);
        Ok(())
    }
}

impl KvSlot {
    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        let parts = [&self.k, &self.v, &self.index, &self.blocks];
        parts.iter().map(|part| size_of_val(&part[..])).sum()
    }

    /// Rows of keys and values.
    pub fn rows(&self, shape: &QsaShape) -> usize {
        self.k.len().checked_div(shape.kv_dim()).unwrap_or(0)
    }
}

/// Pooled keys of the blocks whose last token is in `rows`.
fn blocks_in(shape: &QsaShape, rows: &Range<usize>) -> Range<usize> {
    let before = |end: usize| end.checked_div(shape.block).unwrap_or(0);
    before(rows.start)..before(rows.end)
}

/// Width of raw and pooled index keys: a dense layer has none.
fn index_width(shape: &QsaShape) -> usize {
    if shape.block == 0 { 0 } else { shape.index_dim }
}

impl QsaState {
    /// A copy of the rows `rows` of `slot`; see [`crate::Qsa::export_qsa_rows`].
    ///
    /// # Panics
    /// If the cache holds fewer.
    pub fn export_rows(&self, shape: &QsaShape, slot: usize, rows: Range<usize>) -> KvSlot {
        let (kv, width) = (&self.slots[slot], index_width(shape));
        let part = |values: &[f32], rows: &Range<usize>, width: usize| {
            values[rows.start * width..rows.end * width].to_vec()
        };
        KvSlot {
            k: kv.k.rows(rows.clone()),
            v: kv.v.rows(rows.clone()),
            index: part(&kv.index, &rows, width),
            blocks: part(&kv.blocks, &blocks_in(shape, &rows), width),
        }
    }

    /// Puts `from` behind the first `at` rows of `slot`; see [`crate::Qsa::import_qsa_rows`].
    ///
    /// # Errors
    /// [`Error::StateSize`], [`Error::OutOfMemory`]; what the cache holds stays as it is.
    pub fn import_rows(
        &mut self,
        shape: &QsaShape,
        slot: usize,
        (at, from): (usize, &KvSlot),
    ) -> Result<(), Error> {
        let (kv_dim, width) = (shape.kv_dim(), index_width(shape));
        let rows = at..at.saturating_add(from.rows(shape));
        let blocks = blocks_in(shape, &rows);
        check("keys", from.k.len(), rows.len() * kv_dim)?;
        check("values", from.v.len(), rows.len() * kv_dim)?;
        check("index keys", from.index.len(), rows.len() * width)?;
        check("pooled index keys", from.blocks.len(), blocks.len() * width)?;
        let (held, most) = (self.slots[slot].k.len(), self.context);
        check("rows before those that come in", held.min(at), at)?;
        check("rows that fit", rows.end.min(most), rows.end)?;
        self.reserve(shape, slot, rows.end)?;
        let kv = &mut self.slots[slot];
        let put = |values: &mut Vec<f32>, at: usize, from: &[f32]| {
            values.truncate(at);
            values.extend_from_slice(from);
        };
        for (rows, from) in [(&mut kv.k, &from.k), (&mut kv.v, &from.v)] {
            rows.truncate(at);
            rows.append(from);
        }
        put(&mut kv.index, at * width, &from.index);
        put(&mut kv.blocks, blocks.start * width, &from.blocks);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::RopeScaling;
    use crate::{GdnShape, KvType, PleShape};

    const SHAPE: QsaShape = QsaShape {
        heads: 2,
        kv_heads: 1,
        head_dim: 2,
        rope_dims: 2,
        rope_base: 1e4,
        index_heads: 1,
        index_dim: 3,
        budget: 8,
        block: 4,
        eps: 1e-6,
        rope_scaling: RopeScaling::None,
    };

    fn empty(shape: &QsaShape) -> QsaState {
        QsaState::new(shape, 2, 64, KvType::F32).unwrap()
    }

    /// A cache of `len` rows whose values tell where they belong.
    fn filled(shape: &QsaShape, len: usize) -> QsaState {
        let mut state = empty(shape);
        let count =
            |n: usize, base: usize| -> Vec<f32> { (0..n).map(|i| (base + i) as f32).collect() };
        let width = index_width(shape);
        let kv = &mut state.slots[1];
        kv.k.append(&count(len * shape.kv_dim(), 1000));
        kv.v.append(&count(len * shape.kv_dim(), 2000));
        kv.index = count(len * width, 3000);
        kv.blocks = count(len.checked_div(shape.block).unwrap_or(0) * width, 4000);
        state
    }

    fn held(state: &QsaState, slot: usize) -> KvSlot {
        state.slot(slot).export()
    }

    fn parts(kv: &KvSlot) -> [&[f32]; 4] {
        [&kv.k, &kv.v, &kv.index, &kv.blocks]
    }

    #[test]
    fn fault_068_all_four_parts_are_cut_and_joined_wherever_the_cut_is() {
        for block in [0, 4, 5] {
            let shape = QsaShape { block, ..SHAPE };
            let from = filled(&shape, 23);
            for cuts in [&[0, 23][..], &[0, 8, 16, 23], &[0, 1, 7, 7, 19, 20, 23]] {
                let mut to = empty(&shape);
                for cut in cuts.windows(2) {
                    let piece = from.export_rows(&shape, 1, cut[0]..cut[1]);
                    assert_eq!(piece.rows(&shape), cut[1] - cut[0]);
                    to.import_rows(&shape, 0, (cut[0], &piece)).unwrap();
                }
                assert_eq!(parts(&held(&to, 0)), parts(&held(&from, 1)), "block {block}, {cuts:?}");
            }
        }
    }

    #[test]
    fn fault_049_rows_behind_those_that_come_in_are_dropped_with_their_blocks() {
        let from = filled(&SHAPE, 23);
        let mut to = filled(&SHAPE, 23);
        let piece = from.export_rows(&SHAPE, 1, 6..9);
        to.import_rows(&SHAPE, 1, (6, &piece)).unwrap();
        assert_eq!(parts(&held(&to, 1)), parts(&from.export_rows(&SHAPE, 1, 0..9)));
        assert_eq!(held(&to, 1).bytes(), 4 * (2 * 9 * 2 + 9 * 3 + 2 * 3));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut state = filled(&SHAPE, 6);
        let before = held(&state, 1);
        let good = filled(&SHAPE, 23).export_rows(&SHAPE, 1, 6..10);
        let with = |change: fn(&mut KvSlot)| {
            let mut piece = good.clone();
            change(&mut piece);
            piece
        };
        let wrong = [
            (6, with(|piece| piece.k.truncate(1))),
            (6, with(|piece| piece.v.push(0.0))),
            (6, with(|piece| piece.index.clear())),
            (6, with(|piece| piece.blocks.clear())),
            // Behind a gap; and more than the context.
            (7, good.clone()),
            (6, filled(&SHAPE, 70).export_rows(&SHAPE, 1, 6..70)),
        ];
        for (i, (at, piece)) in wrong.iter().enumerate() {
            let result = state.import_rows(&SHAPE, 1, (*at, piece));
            assert!(matches!(result, Err(Error::StateSize { .. })), "case {i}: {result:?}");
            assert_eq!(parts(&held(&state, 1)), parts(&before), "case {i}");
        }
        state.import_rows(&SHAPE, 1, (6, &good)).unwrap();
    }

    #[test]
    fn recurrent_states_come_back_or_are_refused() {
        let shape =
            GdnShape { key_heads: 1, value_heads: 2, head_dim: 2, conv_kernel: 3, eps: 1e-6 };
        let mut state = GdnState::new(&shape, 2, 1).unwrap();
        let s: Vec<f32> = (0..shape.state_len()).map(|i| i as f32).collect();
        let slot = GdnSlot { conv: vec![7.0; shape.conv_len()], s };
        state.import(1, &slot).unwrap();
        assert_eq!((state.s(1), state.conv(1)), (&slot.s[..], &slot.conv[..]));
        assert!(state.s(0).iter().chain(state.conv(0)).all(|&x| x == 0.0));
        let short = GdnSlot { s: slot.s[1..].to_vec(), conv: slot.conv.clone() };
        assert!(matches!(state.import(0, &short), Err(Error::StateSize { .. })));

        let shape = PleShape { streams: 2, width: 2, kernel: 2, dilation: 2, eps: 1e-6 };
        let mut state = PleState::new(&shape, 2, 1).unwrap();
        state.import(1, &[3.0; 8]).unwrap();
        assert_eq!((state.conv(0), state.conv(1)), (&[0.0; 8][..], &[3.0; 8][..]));
        assert!(state.import(1, &[3.0; 9]).is_err());
    }
}
