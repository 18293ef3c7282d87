//! How each format's blocks become a panel: the same few blocks of all its rows at a time.
//!
//! A lane belongs to a row, so an encoded field is read for all rows at once (`columns`) and taken
//! apart with shifts and masks that are the same in every lane; nothing is transposed afterwards.

mod grids;
mod k_quants;
mod lattice;
mod nibbles;
mod packed;
mod ternary;

use super::GROUP;
use super::interleave::Pieces;
use super::lanes::RowLanes;
use super::panel::{Blocks, InRows, InTurn, Panel, RowPointers, Sink};
use gguf::TensorType;
use quant::BlockFormat;

/// A format that can be decoded into a panel.
pub(crate) trait PanelFormat: BlockFormat {
    /// Scales per [`GROUP`] values, 1 or 2.
    const SPLIT: usize;
    /// Whether groups have offsets.
    const OFFSETS: bool;
    /// What blocks are taken apart into to be interleaved, unless they are not.
    const PIECES: Option<Pieces> = Some(Pieces::before_words(Self::BYTES));

    /// Decodes one block of every row.
    ///
    /// # Safety
    /// The instruction set of `L` must be enabled; `from` must be a whole block in every row, and
    /// `to` have room for its values.
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink);
}

/// What is to be done with a format once it is known at compile time.
pub(crate) trait PanelVisitor {
    type Out;
    fn visit<F: PanelFormat>(self) -> Self::Out;
}

/// Calls the visitor with the format of this type; `None` for floats and what carries no weights.
pub(crate) fn with_panel_format<V: PanelVisitor>(ty: TensorType, visitor: V) -> Option<V::Out> {
    macro_rules! dispatch {
        ($($format:ident),+ $(,)?) => {
            match ty {
                $(TensorType::$format => Some(visitor.visit::<quant::$format>()),)+
                _ => None,
            }
        };
    }
    #[rustfmt::skip]
    return dispatch!(
        Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
        IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS,
        MXFP4, NVFP4, TQ1_0, TQ2_0,
    );
}

/// Decodes `blocks` blocks of every row, from byte `at` of the rows, to the start of `panel`.
///
/// # Safety
/// As for [`PanelFormat::block`].
#[inline(always)]
pub(crate) unsafe fn decode<F: PanelFormat, L: RowLanes>(
    rows: &RowPointers,
    at: usize,
    blocks: usize,
    panel: &mut Panel,
) {
    let from = |b: usize| InRows { rows, at: at + b * F::BYTES };
    // SAFETY: passed on.
    unsafe { decode_blocks::<F, L, _>(from, blocks, panel) }
}

/// As [`decode`], of blocks that are interleaved.
///
/// # Safety
/// As for [`PanelFormat::block`]; so many blocks of `L::ROWS` rows must lie at `from`.
#[inline(always)]
pub(crate) unsafe fn decode_in_turn<F: PanelFormat, L: RowLanes>(
    from: *const u8,
    blocks: usize,
    panel: &mut Panel,
) {
    let from = |b: usize| InTurn(from.wrapping_add(b * L::ROWS * F::BYTES));
    // SAFETY: passed on.
    unsafe { decode_blocks::<F, L, _>(from, blocks, panel) }
}

/// # Safety
/// As for [`PanelFormat::block`], for all that `from` gives.
#[inline(always)]
unsafe fn decode_blocks<F: PanelFormat, L: RowLanes, B: Blocks>(
    from: impl Fn(usize) -> B,
    blocks: usize,
    panel: &mut Panel,
) {
    assert!(blocks * F::ELEMENTS <= super::CHUNK);
    let groups = F::ELEMENTS / GROUP * F::SPLIT;
    for b in 0..blocks {
        // SAFETY: the caller vouches for the blocks, the assertion for the room.
        unsafe {
            let sink = Sink {
                codes: panel.codes.as_mut_ptr().add(b * F::ELEMENTS * L::ROWS),
                scales: panel.scales.as_mut_ptr().add(b * groups * L::ROWS),
                offsets: panel.offsets.as_mut_ptr().add(b * groups * L::ROWS),
            };
            F::block::<L, B>(from(b), sink);
        }
    }
}

impl Sink {
    /// Codes `4 * quad ..` of every row, stored with the bias already.
    ///
    /// # Safety
    /// The quad must lie inside the block.
    #[inline(always)]
    unsafe fn quad<L: RowLanes>(&self, quad: usize, codes: L::V) {
        // SAFETY: the caller's promise.
        unsafe { L::store(self.codes.add(quad * 4 * L::ROWS), codes) }
    }

    /// Scale of group `group` of every row.
    ///
    /// # Safety
    /// The group must lie inside the block.
    #[inline(always)]
    unsafe fn scale<L: RowLanes>(&self, group: usize, scale: L::F) {
        // SAFETY: the caller's promise.
        unsafe { L::store_f32(self.scales.add(group * L::ROWS), scale) }
    }

    /// Offset of group `group` of every row.
    ///
    /// # Safety
    /// The group must lie inside the block.
    #[inline(always)]
    unsafe fn offset<L: RowLanes>(&self, group: usize, offset: L::F) {
        // SAFETY: the caller's promise.
        unsafe { L::store_f32(self.offsets.add(group * L::ROWS), offset) }
    }
}

/// A code in all four bytes of every lane, as panels store it.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn stored<L: RowLanes>(code: i8) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { L::splat(u32::from(code as u8 ^ L::BIAS) * 0x0101_0101) }
}

/// The byte in all four bytes of every lane.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn bytes<L: RowLanes>(byte: u8) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { L::splat(u32::from(byte) * 0x0101_0101) }
}

/// `table` as panels store codes.
const fn stored_table<L: RowLanes>(table: &[i8; 16]) -> [u8; 16] {
    let mut stored = [0; 16];
    let mut i = 0;
    while i < 16 {
        stored[i] = table[i] as u8 ^ L::BIAS;
        i += 1;
    }
    stored
}

/// The low four bits of every byte.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn low<L: RowLanes>(v: L::V) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { L::and(v, bytes::<L>(15)) }
}

/// The high four bits of every byte.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn high<L: RowLanes>(v: L::V) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { low::<L>(L::shr(v, 4)) }
}
