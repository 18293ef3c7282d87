//! The IQ2 and IQ3 formats: magnitudes from a grid, signs beside them.

use super::grids::{Grids, IQ2S, IQ2XS, IQ2XXS, spread_2};
use super::{PanelFormat, bytes};
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Sink, Source};
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

/// Eight values of an IQ2 grid row with the signs in the low byte of `signs`.
///
/// # Safety
/// As for [`PanelFormat::block`].
#[inline(always)]
unsafe fn octet<L: RowLanes>(row: L::V, signs: L::V, to: Sink, octet: usize) {
    // SAFETY: passed on.
    unsafe {
        let low = L::look_up(Grids::<L>::IQ2, spread_2::<L>(row));
        to.quad::<L>(2 * octet, with_signs::<L>(low, signs));
        let high = L::look_up(Grids::<L>::IQ2, spread_2::<L>(L::shr(row, 8)));
        to.quad::<L>(2 * octet + 1, with_signs::<L>(high, L::shr(signs, 4)));
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
    unsafe fn block<L: RowLanes>(from: Source<'_>, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = L::half(from.columns::<L>(offset_of!(IQ2_XXS, d))[0]);
            // Eight bytes per group: four indices, then signs and scale.
            for pair in 0..4 {
                let words = from.columns::<L>(offset_of!(IQ2_XXS, groups) + 16 * pair);
                for (k, group) in words.as_chunks::<2>().0.iter().enumerate() {
                    let [index, signs_scale] = *group;
                    let b = 2 * pair + k;
                    to.scale::<L>(b, half_step::<L>(d, L::shr(signs_scale, 28), 0.25));
                    let signs = sign_bytes::<L>(signs_scale);
                    for l in 0..4 {
                        let at = 8 * l as u32;
                        let i = L::and(L::shr(index, at), L::splat(0xff));
                        octet::<L>(L::gather(&IQ2XXS, i), L::shr(signs, at), to, 4 * b + l);
                    }
                }
            }
        }
    }
}

impl PanelFormat for IQ2_XS {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes>(from: Source<'_>, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = L::half(from.columns::<L>(offset_of!(IQ2_XS, d))[0]);
            let [_, _, a, b] = from.columns::<L>(size_of::<IQ2_XS>() - 16);
            nibble_scales::<L>(d, [a, b], to);
            // 16 bits per octet: 9 of index, 7 of signs.
            for four in 0..4 {
                let words = from.columns::<L>(offset_of!(IQ2_XS, qs) + 16 * four);
                for (k, word) in words.into_iter().enumerate() {
                    let first = 8 * four + 2 * k;
                    let fields =
                        L::or(L::and(L::shr(word, 9), L::splat(0x7f)), L::shl(L::shr(word, 25), 8));
                    let signs = with_parity::<L>(fields);
                    for l in 0..2 {
                        let i = L::and(L::shr(word, 16 * l as u32), L::splat(0x1ff));
                        let signs = L::shr(signs, 8 * l as u32);
                        octet::<L>(L::gather(&IQ2XS, i), signs, to, first + l);
                    }
                }
            }
        }
    }
}

impl PanelFormat for IQ2_S {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes>(from: Source<'_>, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = L::half(from.columns::<L>(offset_of!(IQ2_S, d))[0]);
            // The last 16 bytes: top bits of the indices, two per octet, then scales.
            let [top_a, top_b, a, b] = from.columns::<L>(offset_of!(IQ2_S, qh));
            nibble_scales::<L>(d, [a, b], to);
            for half in 0..2 {
                let index = from.columns::<L>(offset_of!(IQ2_S, qs) + 16 * half);
                let signs = from.columns::<L>(offset_of!(IQ2_S, signs) + 16 * half);
                let top = [top_a, top_b][half];
                for k in 0..16 {
                    let at = 8 * (k % 4) as u32;
                    let low = L::and(L::shr(index[k / 4], at), L::splat(0xff));
                    let high = L::and(L::shl(L::shr(top, 2 * k as u32), 8), L::splat(0x300));
                    let row = L::gather(&IQ2S, L::or(low, high));
                    octet::<L>(row, L::shr(signs[k / 4], at), to, 16 * half + k);
                }
            }
        }
    }
}

impl PanelFormat for IQ3_XXS {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes>(from: Source<'_>, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = L::half(from.columns::<L>(offset_of!(IQ3_XXS, d))[0]);
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
                    for j in 0..8 {
                        // Byte 8 * k + j of 32.
                        let v = index[k / 2][2 * (k % 2) + j / 4];
                        let i = L::and(L::shr(v, 8 * (j % 4) as u32), L::splat(0xff));
                        let row = L::gather(Grids::<L>::IQ3XXS, i);
                        let signs = L::shr(signs, 4 * j as u32);
                        to.quad::<L>(8 * b + j, with_signs::<L>(row, signs));
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
    unsafe fn block<L: RowLanes>(from: Source<'_>, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = L::half(from.columns::<L>(offset_of!(IQ3_S, d))[0]);
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
                    for j in 0..8 {
                        let v = index[k / 2][2 * (k % 2) + j / 4];
                        let low = L::and(L::shr(v, 8 * (j % 4) as u32), L::splat(0xff));
                        let high =
                            L::and(L::shl(L::shr(top, (8 * k + j) as u32), 8), L::splat(0x100));
                        let row = L::gather(Grids::<L>::IQ3S, L::or(low, high));
                        let signs = L::shr(signs, 4 * j as u32);
                        to.quad::<L>(8 * b + j, with_signs::<L>(row, signs));
                    }
                }
            }
        }
    }
}
