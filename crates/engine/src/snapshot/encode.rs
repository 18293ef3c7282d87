//! Saved states as bytes: little-endian, every list with its length before it.
//!
//! Reading takes nothing on trust: a length is held against the bytes that are there, and what is
//! read here has still to pass [`crate::Engine::restore`].

use super::{Identity, Piece, Snapshot};
use crate::fingerprint::Fingerprint;
use crate::mtp::MtpSnapshot;
use kernels::KvType;
use kernels::gdn::GdnSlot;
use kernels::host::{KvRows, KvSlot};
use quant::decode_row;

/// Types of keys and values, the narrowest first; one past them stands for f32.
const NARROW: [KvType; 2] = [KvType::Q8_0, KvType::F16];

/// Bytes in the making.
#[derive(Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn number(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }

    /// A fingerprint.
    pub(crate) fn print(&mut self, print: u64) {
        self.0.extend_from_slice(&print.to_le_bytes());
    }

    pub(crate) fn tokens(&mut self, tokens: &[u32]) {
        self.number(tokens.len());
        tokens.iter().for_each(|token| self.0.extend_from_slice(&token.to_le_bytes()));
    }

    pub(crate) fn values(&mut self, values: &[f32]) {
        self.number(values.len());
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }

    /// A number or none, as how much it is more than nothing.
    pub(crate) fn option(&mut self, number: Option<usize>) {
        self.number(number.map_or(0, |number| number + 1));
    }

    /// Keys and values come out of the cache's type, which takes less than f32.
    pub(crate) fn rows(&mut self, rows: &KvSlot) {
        [&rows.k, &rows.v].iter().for_each(|part| self.narrow(part));
        [&rows.index, &rows.blocks].iter().for_each(|part| self.values(part));
    }

    /// Values in the narrowest type that gives back the same bits.
    fn narrow(&mut self, values: &[f32]) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let narrowed = NARROW.iter().enumerate().find_map(|(number, &ty)| {
            let mut rows = KvRows::new(ty, ty.block());
            if !values.len().is_multiple_of(ty.block()) {
                return None;
            }
            // A sample first: most types are the wrong one from the beginning.
            let sample = &values[..values.len().min(4 * ty.block())];
            rows.append(sample);
            if bits(&rows.decode()) != bits(sample) {
                return None;
            }
            rows.append(&values[sample.len()..]);
            (bits(&rows.decode()) == bits(values)).then_some((number, rows))
        });
        match narrowed {
            Some((number, rows)) => {
                self.number(number);
                self.number(values.len());
                self.0.extend_from_slice(rows.bytes());
            }
            None => {
                self.number(NARROW.len());
                self.values(values);
            }
        }
    }

    fn identity(&mut self, identity: Identity) {
        let Identity { model, tokens } = identity;
        [model, tokens].iter().for_each(|print| self.0.extend_from_slice(&print.to_bytes()));
    }

    pub(crate) fn piece(&mut self, piece: &Piece) {
        self.identity(piece.identity);
        self.tokens(&piece.tokens);
        self.number(piece.layers.len());
        piece.layers.iter().for_each(|layer| self.rows(layer));
        self.number(usize::from(piece.mtp.is_some()));
        piece.mtp.iter().for_each(|rows| self.rows(rows));
    }

    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        let Snapshot { identity, len, gdn, ple, tail, mtp } = snapshot;
        self.identity(*identity);
        self.number(*len);
        self.number(gdn.len());
        for GdnSlot { s, conv } in gdn {
            self.values(s);
            self.values(conv);
        }
        self.number(usize::from(ple.is_some()));
        ple.iter().for_each(|history| self.values(history));
        self.piece(tail);
        self.number(usize::from(mtp.is_some()));
        mtp.iter().for_each(|mtp| mtp.encode(self));
    }
}

/// Bytes that are read; `None` as soon as something cannot be what was written.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl Decoder<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn number(&mut self) -> Option<usize> {
        let bytes = self.take(8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    }

    /// A fingerprint.
    pub(crate) fn print(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn option(&mut self) -> Option<Option<usize>> {
        Some(self.number()?.checked_sub(1))
    }

    /// Whether something follows.
    fn follows(&mut self) -> Option<bool> {
        [false, true].get(self.number()?).copied()
    }

    fn words(&mut self) -> Option<impl Iterator<Item = [u8; 4]> + '_> {
        let count = self.number()?.checked_mul(4)?;
        Some(self.take(count)?.as_chunks::<4>().0.iter().copied())
    }

    pub(crate) fn tokens(&mut self) -> Option<Vec<u32>> {
        Some(self.words()?.map(u32::from_le_bytes).collect())
    }

    pub(crate) fn values(&mut self) -> Option<Vec<f32>> {
        Some(self.words()?.map(f32::from_le_bytes).collect())
    }

    fn narrow(&mut self) -> Option<Vec<f32>> {
        let number = self.number()?;
        let Some(ty) = NARROW.get(number) else {
            return if number == NARROW.len() { self.values() } else { None };
        };
        let count = self.number()?;
        let blocks = count.checked_div(ty.block()).filter(|blocks| blocks * ty.block() == count)?;
        let bytes = self.take(blocks.checked_mul(ty.bytes(ty.block()))?)?;
        let mut values = vec![0.0; count];
        decode_row(ty.tensor_type(), bytes, &mut values).ok()?;
        Some(values)
    }

    pub(crate) fn rows(&mut self) -> Option<KvSlot> {
        let (k, v) = (self.narrow()?, self.narrow()?);
        Some(KvSlot { k, v, index: self.values()?, blocks: self.values()? })
    }

    fn identity(&mut self) -> Option<Identity> {
        let mut print = || Some(Fingerprint::from_bytes(self.take(8)?.try_into().ok()?));
        Some(Identity { model: print()?, tokens: print()? })
    }

    /// As many of something as a number says; each takes at least a byte.
    pub(crate) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.number()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }

    pub(crate) fn piece(&mut self) -> Option<Piece> {
        let (identity, tokens) = (self.identity()?, self.tokens()?);
        let layers = self.list(Self::rows)?;
        let mtp = if self.follows()? { Some(self.rows()?) } else { None };
        Some(Piece { identity, tokens, layers, mtp })
    }

    pub(crate) fn snapshot(&mut self) -> Option<Snapshot> {
        let (identity, len) = (self.identity()?, self.number()?);
        let gdn = self.list(|from| Some(GdnSlot { s: from.values()?, conv: from.values()? }))?;
        let ple = if self.follows()? { Some(self.values()?) } else { None };
        let tail = self.piece()?;
        let mtp = if self.follows()? { Some(MtpSnapshot::decode(self)?) } else { None };
        Some(Snapshot { identity, len, gdn, ple, tail, mtp })
    }
}
