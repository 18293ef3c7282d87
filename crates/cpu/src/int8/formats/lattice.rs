//! The IQ2 and IQ3 formats: magnitudes from a grid, signs beside them.

use super::grids::{Grids, IQ2S, IQ2XS, IQ2XXS, Iq2Grid, Iq3Grid};
use super::{PanelFormat, bytes};
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Blocks, Sink};
use quant::{IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use std::mem::offset_of;

/// `-m` where the bit of `signs` is set, for four stored magnitudes; minus is the same with and
/// without a bias of 128.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn with_signs<L: RowLanes>(magnitudes: L::V, signs: L::V) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = L::masks(signs);
        L::sub8(L::xor(magnitudes, mask), mask)
    }
}

/// The four rows of an IQ2 grid whose indices are the bytes of `low` with those of `high` above
/// them, each with the signs in its byte of `signs`: octets `first ..`.
///
/// # Safety
/// As for [`PanelFormat::block`]; indices must be below N.
#[inline(always)]
unsafe fn octets<L: RowLanes, const N: usize>(
    grid: &Iq2Grid<N>,
    [low, high]: [L::V; 2],
    signs: L::V,
    to: Sink,
    first: usize,
) {
    // SAFETY: passed on.
    unsafe {
        let planes = if L::PLANES { L::planes(&grid.planes, low, high) } else { [low, high] };
        for j in 0..4 {
            let at = 8 * j as u32;
            let codes = if L::PLANES {
                [(planes[0], at), (planes[1], at)]
            } else {
                let row = L::gather(&grid.words, index::<L>(low, high, at));
                [(row, 0), (row, 8)]
            };
            let quad = 2 * (first + j);
            let values = L::signed_2(Grids::<L>::IQ2, codes[0], (signs, at));
            to.quad::<L>(quad, values);
            let values = L::signed_2(Grids::<L>::IQ2, codes[1], (signs, at + 4));
            to.quad::<L>(quad + 1, values);
        }
    }
}

/// The four rows of an IQ3 grid as in [`octets`], each with four bits of `signs`: quads `first ..`.
///
/// # Safety
/// As for [`octets`].
#[inline(always)]
unsafe fn quads<L: RowLanes, const N: usize>(
    grid: &Iq3Grid<N>,
    [low, high]: [L::V; 2],
    signs: L::V,
    to: Sink,
    first: usize,
) {
    // SAFETY: passed on.
    unsafe {
        let planes = if L::PLANES { L::planes(grid.planes, low, high) } else { [low, high] };
        for j in 0..4 {
            let at = 8 * j as u32;
            let sign = 4 * j as u32;
            let values = if L::PLANES {
                L::signed_3(&grid.signed, (planes, at), (signs, sign))
            } else {
                let magnitudes = L::gather(grid.words, index::<L>(low, high, at));
                with_signs::<L>(magnitudes, L::shr(signs, sign))
            };
            to.quad::<L>(first + j, values);
        }
    }
}

/// Byte `at / 8` of `low` with that of `high` above it.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn index<L: RowLanes>(low: L::V, high: L::V, at: u32) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let byte = L::splat(0xff);
        L::or(L::and(L::shr(low, at), byte), L::shl(L::and(L::shr(high, at), byte), 8))
    }
}

/// Four sign bytes from four 7-bit fields at the low end of each lane: bit 7 makes the number of
/// set bits even.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn sign_bytes<L: RowLanes>(v: L::V) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let a = L::and(v, L::splat(0x7f));
        let b = L::and(L::shl(v, 1), L::splat(0x7f00));
        let c = L::and(L::shl(v, 2), L::splat(0x7f_0000));
        let d = L::and(L::shl(v, 3), L::splat(0x7f00_0000));
        with_parity::<L>(L::or(L::or(a, b), L::or(c, d)))
    }
}

/// Bytes of seven bits with their parity added as bit 7.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn with_parity<L: RowLanes>(fields: L::V) -> L::V {
    /// 128 for an odd number of bits.
    static PARITY: [u8; 16] = [0, 128, 128, 0, 128, 0, 0, 128, 128, 0, 0, 128, 0, 128, 128, 0];
    // SAFETY: the caller's promise.
    unsafe {
        let folded = L::and(L::xor(fields, L::shr(fields, 4)), bytes::<L>(15));
        L::or(fields, L::look_up(&PARITY, folded))
    }
}

/// `(d * (0.5 + s)) * unit`.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn half_step<L: RowLanes>(d: L::F, s: L::V, unit: f32) -> L::F {
    // SAFETY: the caller's promise.
    unsafe {
        let steps = L::add_f32(L::splat_f32(0.5), L::to_f32(s));
        L::mul_f32(L::mul_f32(d, steps), L::splat_f32(unit))
    }
}

/// The 16 scales of IQ2_XS and IQ2_S, one nibble each from the 8 bytes `words`.
///
/// # Safety
/// As for [`PanelFormat::block`].
#[inline(always)]
unsafe fn nibble_scales<L: RowLanes>(d: L::F, words: [L::V; 2], to: Sink) {
    // SAFETY: passed on.
    unsafe {
        for g in 0..16 {
            let s = L::and(L::shr(words[g / 8], 4 * (g % 8) as u32), L::splat(15));
            to.scale::<L>(g, half_step::<L>(d, s, 0.25));
        }
    }
}

impl PanelFormat for IQ2_XXS {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ2_XXS, d));
            // Eight bytes per group: four indices, then signs and scale.
            for pair in 0..4 {
                let words = from.columns::<L>(offset_of!(IQ2_XXS, groups) + 16 * pair);
                for (k, group) in words.as_chunks::<2>().0.iter().enumerate() {
                    let [index, signs_scale] = *group;
                    let b = 2 * pair + k;
                    to.scale::<L>(b, half_step::<L>(d, L::shr(signs_scale, 28), 0.25));
                    let signs = sign_bytes::<L>(signs_scale);
                    octets::<L, 256>(&IQ2XXS, [index, L::splat(0)], signs, to, 4 * b);
                }
            }
        }
    }
}

/// The bytes at bit `at` of four 16-bit words.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn four_bytes<L: RowLanes>([a, b]: [L::V; 2], at: u32) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (L::shr(a, at), L::shr(b, at));
        let a = L::or(L::and(a, L::splat(0xff)), L::and(L::shr(a, 8), L::splat(0xff00)));
        let b = L::or(L::and(b, L::splat(0xff)), L::and(L::shr(b, 8), L::splat(0xff00)));
        L::or(a, L::shl(b, 16))
    }
}

impl PanelFormat for IQ2_XS {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ2_XS, d));
            let [_, _, a, b] = from.columns::<L>(size_of::<IQ2_XS>() - 16);
            nibble_scales::<L>(d, [a, b], to);
            // 16 bits per octet: 9 of index, 7 of signs.
            for four in 0..4 {
                let words = from.columns::<L>(offset_of!(IQ2_XS, qs) + 16 * four);
                for (k, words) in words.as_chunks::<2>().0.iter().enumerate() {
                    let low = four_bytes::<L>(*words, 0);
                    // Above it a bit of the index and seven bits of signs.
                    let above = four_bytes::<L>(*words, 8);
                    let high = L::and(above, bytes::<L>(1));
                    let fields = L::and(L::shr(above, 1), bytes::<L>(0x7f));
                    let signs = with_parity::<L>(fields);
                    octets::<L, 512>(&IQ2XS, [low, high], signs, to, 8 * four + 4 * k);
                }
            }
        }
    }
}

impl PanelFormat for IQ2_S {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ2_S, d));
            // The last 16 bytes: top bits of the indices, two per octet, then scales.
            let [top_a, top_b, a, b] = from.columns::<L>(offset_of!(IQ2_S, qh));
            nibble_scales::<L>(d, [a, b], to);
            for half in 0..2 {
                let index = from.columns::<L>(offset_of!(IQ2_S, qs) + 16 * half);
                let signs = from.columns::<L>(offset_of!(IQ2_S, signs) + 16 * half);
                let top = [top_a, top_b][half];
                for k in 0..4 {
                    // A byte of top bits per group of four octets.
                    let high = L::fields_2(top, 8 * k as u32);
                    let low = index[k];
                    octets::<L, 1024>(&IQ2S, [low, high], signs[k], to, 16 * half + 4 * k);
                }
            }
        }
    }
}

impl PanelFormat for IQ3_XXS {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ3_XXS, d));
            for half in 0..2 {
                let words = from.columns::<L>(offset_of!(IQ3_XXS, signs_scales) + 16 * half);
                let index = [
                    from.columns::<L>(offset_of!(IQ3_XXS, qs) + 32 * half),
                    from.columns::<L>(offset_of!(IQ3_XXS, qs) + 32 * half + 16),
                ];
                for (k, word) in words.into_iter().enumerate() {
                    let b = 4 * half + k;
                    to.scale::<L>(b, half_step::<L>(d, L::shr(word, 28), 0.5));
                    let signs = sign_bytes::<L>(word);
                    for j in 0..2 {
                        let low = index[k / 2][2 * (k % 2) + j];
                        let signs = L::shr(signs, 16 * j as u32);
                        let grid = &Grids::<L>::IQ3XXS;
                        quads::<L, 256>(grid, [low, L::splat(0)], signs, to, 8 * b + 4 * j);
                    }
                }
            }
        }
    }
}

impl PanelFormat for IQ3_S {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ3_S, d));
            let scales = from.columns::<L>(size_of::<IQ3_S>() - 16)[3];
            let [top_a, top_b, ..] = from.columns::<L>(offset_of!(IQ3_S, qh));
            for half in 0..2 {
                let signs = from.columns::<L>(offset_of!(IQ3_S, signs) + 16 * half);
                let index = [
                    from.columns::<L>(offset_of!(IQ3_S, qs) + 32 * half),
                    from.columns::<L>(offset_of!(IQ3_S, qs) + 32 * half + 16),
                ];
                let top = [top_a, top_b][half];
                for (k, signs) in signs.into_iter().enumerate() {
                    let b = 4 * half + k;
                    let s = L::and(L::shr(scales, 4 * b as u32), L::splat(15));
                    let s = L::to_f32(L::or(L::shl(s, 1), L::splat(1)));
                    to.scale::<L>(b, L::mul_f32(d, s));
                    for j in 0..2 {
                        let low = index[k / 2][2 * (k % 2) + j];
                        let high = L::masks(L::shr(top, (8 * k + 4 * j) as u32));
                        let high = L::and(high, bytes::<L>(1));
                        let signs = L::shr(signs, 16 * j as u32);
                        let grid = &Grids::<L>::IQ3S;
                        quads::<L, 512>(grid, [low, high], signs, to, 8 * b + 4 * j);
                    }
                }
            }
        }
    }
}
