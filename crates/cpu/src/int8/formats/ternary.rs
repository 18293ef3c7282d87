//! Formats of 2 bits per value and less whose codes are small integers: Q2_0, IQ1_S, IQ1_M.

use super::grids::IQ1;
use super::{PanelFormat, stored};
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Blocks, Sink};
use quant::{IQ1_M, IQ1_S, Q2_0};
use std::mem::offset_of;

impl PanelFormat for Q2_0 {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(Q2_0, d));
            to.scale::<L>(0, d);
            to.scale::<L>(1, d);
            let first = stored::<L>(-1);
            for (j, v) in from.columns::<L>(offset_of!(Q2_0, qs)).into_iter().enumerate() {
                for k in 0..4 {
                    let codes = L::fields_2(v, 8 * k as u32);
                    to.quad::<L>(4 * j + k, L::add8(codes, first));
                }
            }
        }
    }
}

/// Eight codes `8 * value + shift` of the IQ1 grid; bit 1 of `minus` says that the shift is -1, not
/// 1.
///
/// # Safety
/// As for [`PanelFormat::block`]; the index must be below 2048.
#[inline(always)]
unsafe fn octet<L: RowLanes>(index: L::V, minus: L::V, to: Sink, octet: usize) {
    // SAFETY: passed on.
    unsafe {
        let row = L::gather(&IQ1, index);
        // The table holds values from 0: -8 makes up for it.
        let twos = L::and(minus, L::splat(2));
        let twos = L::or(twos, L::shl(twos, 8));
        let twos = L::or(twos, L::shl(twos, 16));
        let first = L::sub8(stored::<L>(-8 + 1), twos);
        for half in 0..2 {
            let codes = L::shl(L::fields_2(row, 8 * half as u32), 3);
            to.quad::<L>(2 * octet + half, L::add8(codes, first));
        }
    }
}

/// `(d * (2 * s + 1)) / 8`.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn eighth_scale<L: RowLanes>(d: L::F, s: L::V) -> L::F {
    // SAFETY: the caller's promise.
    unsafe {
        let odd = L::to_f32(L::or(L::shl(s, 1), L::splat(1)));
        L::mul_f32(L::mul_f32(d, odd), L::splat_f32(0.125))
    }
}

impl PanelFormat for IQ1_S {
    const SPLIT: usize = 1;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let d = from.half::<L>(offset_of!(IQ1_S, d));
            let words = from.columns::<L>(offset_of!(IQ1_S, qh));
            for half in 0..2 {
                let low = from.columns::<L>(offset_of!(IQ1_S, qs) + 16 * half);
                for (k, low) in low.into_iter().enumerate() {
                    let b = 4 * half + k;
                    // 16 bits per group: top bits of four indices, scale, shift.
                    let word = L::shr(words[b / 2], 16 * (b % 2) as u32);
                    let s = L::and(L::shr(word, 12), L::splat(7));
                    to.scale::<L>(b, eighth_scale::<L>(d, s));
                    let minus = L::shr(word, 14);
                    for l in 0..4 {
                        let low = L::and(L::shr(low, 8 * l as u32), L::splat(0xff));
                        let high = L::and(L::shl(L::shr(word, 3 * l as u32), 8), L::splat(0x700));
                        octet::<L>(L::or(low, high), minus, to, 4 * b + l);
                    }
                }
            }
        }
    }
}

/// `bits` of every lane after a shift to the right.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn field<L: RowLanes>(v: L::V, shift: u32, bits: u32) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { L::and(L::shr(v, shift), L::splat(bits)) }
}

impl PanelFormat for IQ1_M {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            let [_, _, a, b] = from.columns::<L>(size_of::<IQ1_M>() - 16);
            // The unit is spread over the top four bits of the four scale words.
            let unit = L::or(
                L::or(field::<L>(a, 12, 0xf), field::<L>(a, 24, 0xf0)),
                L::or(field::<L>(b, 4, 0xf00), field::<L>(b, 16, 0xf000)),
            );
            let d = L::half(unit);
            for g in 0..16 {
                let at = 16 * (g / 4 % 2) + 3 * (g % 4);
                let s = field::<L>([a, b][g / 8], at as u32, 7);
                to.scale::<L>(g, eighth_scale::<L>(d, s));
            }
            let top = from.columns::<L>(offset_of!(IQ1_M, qh));
            for half in 0..2 {
                let low = from.columns::<L>(offset_of!(IQ1_M, qs) + 16 * half);
                for k in 0..16 {
                    let r = 16 * half + k;
                    // A nibble per octet: three bits of index, one of shift.
                    let nibble = L::shr(top[r / 8], 4 * (r % 8) as u32);
                    let low = L::and(L::shr(low[k / 4], 8 * (k % 4) as u32), L::splat(0xff));
                    let high = L::and(L::shl(nibble, 8), L::splat(0x700));
                    octet::<L>(L::or(low, high), L::shr(nibble, 2), to, r);
                }
            }
        }
    }
}
