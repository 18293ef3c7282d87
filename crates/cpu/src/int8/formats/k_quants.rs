//! Q4_K, Q5_K and Q6_K.

use super::{PanelFormat, bytes, high, low, stored};
use crate::int8::interleave::Pieces;
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Blocks, Sink};
use quant::{Q4_K, Q5_K, Q6_K};
use std::mem::offset_of;

/// Scales and offsets of eight groups from the first 16 bytes of a block: two f16 units, then
/// twelve bytes of 6-bit codes.
///
/// # Safety
/// As for [`PanelFormat::block`].
#[inline(always)]
unsafe fn six_bit<L: RowLanes>(from: impl Blocks, to: Sink) {
    // SAFETY: passed on.
    unsafe {
        let [units, a, b, c] = from.columns::<L>(0);
        let minus = L::splat_f32(-1.0);
        let (d, dmin) = (L::half(units), L::mul_f32(L::half(L::shr(units, 16)), minus));
        let six = L::splat(63);
        let four = L::splat(15);
        let top = L::splat(0x30);
        for j in 0..4 {
            let at = 8 * j as u32;
            let scale = L::and(L::shr(a, at), six);
            let offset = L::and(L::shr(b, at), six);
            to.scale::<L>(j, L::mul_f32(d, L::to_f32(scale)));
            to.offset::<L>(j, L::mul_f32(dmin, L::to_f32(offset)));
            // The upper four groups have their top two bits above the lower ones' codes.
            let (top_a, top_b) = (L::and(L::shr(a, at + 2), top), L::and(L::shr(b, at + 2), top));
            let scale = L::or(L::and(L::shr(c, at), four), top_a);
            let offset = L::or(L::and(L::shr(c, at + 4), four), top_b);
            to.scale::<L>(j + 4, L::mul_f32(d, L::to_f32(scale)));
            to.offset::<L>(j + 4, L::mul_f32(dmin, L::to_f32(offset)));
        }
    }
}

impl PanelFormat for Q4_K {
    const SPLIT: usize = 1;
    const OFFSETS: bool = true;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            six_bit::<L>(from, to);
            let bias = stored::<L>(0);
            // 32 bytes hold a group in the low and the next group in the high nibbles.
            for h in 0..8 {
                let columns = from.columns::<L>(offset_of!(Q4_K, qs) + 16 * h);
                for (j, v) in columns.into_iter().enumerate() {
                    let quad = 16 * (h / 2) + 4 * (h % 2) + j;
                    to.quad::<L>(quad, L::or(low::<L>(v), bias));
                    to.quad::<L>(quad + 8, L::or(high::<L>(v), bias));
                }
            }
        }
    }
}

/// 16 in every byte of `bits` whose bit `group` is set.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
unsafe fn fifth_bits<L: RowLanes>(bits: L::V, group: usize) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let g = group as u32;
        let moved = if g < 4 { L::shl(bits, 4 - g) } else { L::shr(bits, g - 4) };
        L::and(moved, bytes::<L>(16))
    }
}

impl PanelFormat for Q5_K {
    const SPLIT: usize = 1;
    const OFFSETS: bool = true;

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            six_bit::<L>(from, to);
            let bias = stored::<L>(0);
            // Bit g of byte e is the fifth bit of element e of group g.
            for half in 0..2 {
                let fifth = from.columns::<L>(offset_of!(Q5_K, qh) + 16 * half);
                for pair in 0..4 {
                    let nibbles = from.columns::<L>(offset_of!(Q5_K, qs) + 32 * pair + 16 * half);
                    for j in 0..4 {
                        let quad = 16 * pair + 4 * half + j;
                        let (even, odd) = (
                            fifth_bits::<L>(fifth[j], 2 * pair),
                            fifth_bits::<L>(fifth[j], 2 * pair + 1),
                        );
                        let (even, odd) = (L::or(even, bias), L::or(odd, bias));
                        to.quad::<L>(quad, L::or(low::<L>(nibbles[j]), even));
                        to.quad::<L>(quad + 8, L::or(high::<L>(nibbles[j]), odd));
                    }
                }
            }
        }
    }
}

impl PanelFormat for Q6_K {
    const SPLIT: usize = 2;
    const OFFSETS: bool = false;
    const PIECES: Option<Pieces> = Some(Pieces::behind_words(Q6_K_BYTES));

    #[inline(always)]
    unsafe fn block<L: RowLanes, B: Blocks>(from: B, to: Sink) {
        // SAFETY: passed on; fields lie inside the block.
        unsafe {
            // The unit is in the last two bytes of the block: the upper half of the last word.
            let d = from.last_half::<L>(Q6_K_BYTES);
            let scales = from.columns::<L>(offset_of!(Q6_K, scales));
            for (j, v) in scales.into_iter().enumerate() {
                for k in 0..4 {
                    let byte = L::and(L::shr(v, 8 * k as u32), L::splat(0xff));
                    // Sign of the byte: xor with 128 and take 128 away.
                    let signed = L::add32(L::xor(byte, L::splat(128)), L::splat(-128i32 as u32));
                    to.scale::<L>(4 * j + k, L::mul_f32(d, L::to_f32(signed)));
                }
            }
            let (first, top) = (stored::<L>(-32), bytes::<L>(0x30));
            // Halves of 128 values: 64 bytes of low, 32 bytes of high bits.
            for n in 0..2 {
                for h in 0..2 {
                    let two = from.columns::<L>(offset_of!(Q6_K, qh) + 32 * n + 16 * h);
                    let a = from.columns::<L>(offset_of!(Q6_K, ql) + 64 * n + 16 * h);
                    let b = from.columns::<L>(offset_of!(Q6_K, ql) + 64 * n + 32 + 16 * h);
                    for j in 0..4 {
                        let quad = 32 * n + 4 * h + j;
                        let bits =
                            [L::shl(two[j], 4), L::shl(two[j], 2), two[j], L::shr(two[j], 2)];
                        let nibbles =
                            [low::<L>(a[j]), low::<L>(b[j]), high::<L>(a[j]), high::<L>(b[j])];
                        for k in 0..4 {
                            let code = L::or(nibbles[k], L::and(bits[k], top));
                            to.quad::<L>(quad + 8 * k, L::add8(code, first));
                        }
                    }
                }
            }
        }
    }
}

const Q6_K_BYTES: usize = size_of::<Q6_K>();
