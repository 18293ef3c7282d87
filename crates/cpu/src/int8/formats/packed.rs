//! Formats without a decoder written for panels: `quant`'s codes, row by row.

use super::PanelFormat;
use crate::int8::GROUP;
use crate::int8::interleave::Pieces;
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Blocks, Sink};
use quant::{NVFP4, Packed, Q1_0, Q2_K, Q3_K, TQ1_0, TQ2_0};

/// Decodes one block of every row.
///
/// # Safety
/// As for [`PanelFormat::block`].
#[inline(always)]
pub(super) unsafe fn block<F: Packed, L: RowLanes>(from: impl Blocks, to: Sink, split: usize) {
    for r in 0..L::ROWS {
        // SAFETY: a whole block of alignment 1 lies there, and `to` has room for its values.
        unsafe {
            let block = &*from.row(r).cast::<F>();
            let codes = block.codes();
            for (q, codes) in codes.as_ref().as_chunks::<4>().0.iter().enumerate() {
                let stored = codes.map(|code| code as u8 ^ L::BIAS);
                to.codes.add(4 * (q * L::ROWS + r)).cast::<[u8; 4]>().write(stored);
            }
            let (scales, offsets) = (block.scales(), block.offsets());
            for g in 0..F::ELEMENTS / GROUP * split {
                let group = g * GROUP / split / F::GROUP;
                to.scales.add(g * L::ROWS + r).write(scales.as_ref()[group]);
                if let Some(offsets) = &offsets {
                    to.offsets.add(g * L::ROWS + r).write(offsets.as_ref()[group]);
                }
            }
        }
    }
}

macro_rules! packed {
    ($($format:ident: split $split:literal, offsets $offsets:literal;)+) => {$(
        impl PanelFormat for $format {
            const SPLIT: usize = $split;
            const OFFSETS: bool = $offsets;
            const PIECES: Option<Pieces> = None;

            #[inline(always)]
            unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
                const { assert!($split * $format::GROUP >= GROUP) }
                // SAFETY: passed on.
                unsafe { block::<Self, L>(from, to, Self::SPLIT) }
            }
        }
    )+};
}

packed! {
    Q1_0: split 1, offsets false;
    Q2_K: split 2, offsets true;
    Q3_K: split 2, offsets false;
    NVFP4: split 2, offsets false;
    TQ1_0: split 1, offsets false;
    TQ2_0: split 1, offsets false;
}
