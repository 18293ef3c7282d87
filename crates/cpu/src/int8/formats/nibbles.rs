//! Formats whose codes are nibbles, nibbles with a fifth bit, or bytes.

use super::{PanelFormat, bytes, high, low, stored, stored_table};
use crate::int8::lanes::RowLanes;
use crate::int8::panel::{Blocks, Sink};
use quant::codebook::{KVALUES_FP4, KVALUES_IQ4NL, e8m0_half};
use quant::{IQ4_NL, IQ4_XS, MXFP4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use std::mem::offset_of;

/// Tables of 16 codes as panels store them.
struct Tables<L>(L);

impl<L: RowLanes> Tables<L> {
    const IQ4NL: [u8; 16] = stored_table::<L>(&KVALUES_IQ4NL);
    const FP4: [u8; 16] = stored_table::<L>(&KVALUES_FP4);
}

/// Bits of MXFP4's scales.
static E8M0: [u32; 256] = {
    let mut table = [0; 256];
    let mut e = 0;
    while e < 256 {
        table[e] = e8m0_half(e as u8).to_bits();
        e += 1;
    }
    table
};

/// 32 codes from a table: element k in the low and k + 16 in the high nibble of byte k of `field`.
///
/// # Safety
/// As for [`PanelFormat::block`]; `field` must have 16 bytes.
#[inline(always)]
unsafe fn look_up_32<L: RowLanes>(
    from: impl Blocks,
    field: usize,
    table: &[u8; 16],
    to: Sink,
    first_quad: usize,
) {
    // SAFETY: passed on.
    unsafe {
        for (j, v) in from.columns::<L>(field).into_iter().enumerate() {
            to.quad::<L>(first_quad + j, L::look_up(table, low::<L>(v)));
            to.quad::<L>(first_quad + j + 4, L::look_up(table, high::<L>(v)));
        }
    }
}

/// 32 codes `nibble + 16 * fifth bit + first`, nibbles as in [`look_up_32`], element k's fifth bit
/// in bit k of `fifth`.
///
/// # Safety
/// As for [`look_up_32`].
#[inline(always)]
unsafe fn five_bits<L: RowLanes>(
    from: impl Blocks,
    field: usize,
    fifth: L::V,
    first: i8,
    to: Sink,
) {
    // SAFETY: passed on.
    unsafe {
        let (sixteen, first) = (bytes::<L>(16), stored::<L>(first));
        for (j, v) in from.columns::<L>(field).into_iter().enumerate() {
            for (h, nibbles) in [low::<L>(v), high::<L>(v)].into_iter().enumerate() {
                let quad = j + 4 * h;
                let bits = L::and(L::masks(L::shr(fifth, 4 * quad as u32)), sixteen);
                to.quad::<L>(quad, L::add8(L::or(nibbles, bits), first));
            }
        }
    }
}

macro_rules! panel_format {
    (
        $format:ident, offsets $offsets:literal,
        |$from:ident, $to:ident, $lanes:ident| $body:block
    ) => {
        impl PanelFormat for $format {
            const SPLIT: usize = 1;
            const OFFSETS: bool = $offsets;

            #[inline(always)]
            unsafe fn block<$lanes: RowLanes, B: Blocks>($from: B, $to: Sink) {
                // SAFETY: passed on; fields lie inside the block.
                unsafe { $body }
            }
        }
    };
}

panel_format!(Q4_0, offsets false, |from, to, L| {
    to.scale::<L>(0, from.half::<L>(offset_of!(Q4_0, d)));
    let first = stored::<L>(-8);
    for (j, v) in from.columns::<L>(offset_of!(Q4_0, qs)).into_iter().enumerate() {
        to.quad::<L>(j, L::add8(low::<L>(v), first));
        to.quad::<L>(j + 4, L::add8(high::<L>(v), first));
    }
});

panel_format!(Q4_1, offsets true, |from, to, L| {
    let header = from.columns::<L>(offset_of!(Q4_1, d))[0];
    to.scale::<L>(0, L::half(header));
    to.offset::<L>(0, L::half(L::shr(header, 16)));
    let first = stored::<L>(0);
    for (j, v) in from.columns::<L>(offset_of!(Q4_1, qs)).into_iter().enumerate() {
        to.quad::<L>(j, L::or(low::<L>(v), first));
        to.quad::<L>(j + 4, L::or(high::<L>(v), first));
    }
});

panel_format!(Q5_0, offsets false, |from, to, L| {
    to.scale::<L>(0, from.half::<L>(offset_of!(Q5_0, d)));
    let [fifth, ..] = from.columns::<L>(offset_of!(Q5_0, qh));
    five_bits::<L>(from, offset_of!(Q5_0, qs), fifth, -16, to);
});

panel_format!(Q5_1, offsets true, |from, to, L| {
    let [scales, fifth, ..] = from.columns::<L>(offset_of!(Q5_1, d));
    to.scale::<L>(0, L::half(scales));
    to.offset::<L>(0, L::half(L::shr(scales, 16)));
    five_bits::<L>(from, offset_of!(Q5_1, qs), fifth, 0, to);
});

panel_format!(Q8_0, offsets false, |from, to, L| {
    to.scale::<L>(0, from.half::<L>(offset_of!(Q8_0, d)));
    let bias = stored::<L>(0);
    for h in 0..2 {
        let columns = from.columns::<L>(offset_of!(Q8_0, qs) + 16 * h);
        for (j, v) in columns.into_iter().enumerate() {
            to.quad::<L>(4 * h + j, L::xor(v, bias));
        }
    }
});

panel_format!(IQ4_NL, offsets false, |from, to, L| {
    to.scale::<L>(0, from.half::<L>(offset_of!(IQ4_NL, d)));
    look_up_32::<L>(from, offset_of!(IQ4_NL, qs), &Tables::<L>::IQ4NL, to, 0);
});

panel_format!(IQ4_XS, offsets false, |from, to, L| {
    let [header, scales_low, ..] = from.columns::<L>(offset_of!(IQ4_XS, d));
    let (d, scales_high) = (L::half(header), L::shr(header, 16));
    let minus_32 = L::splat(-32i32 as u32);
    for g in 0..8 {
        let low = L::and(L::shr(scales_low, 4 * g as u32), L::splat(15));
        let high = L::and(L::shr(scales_high, 2 * g as u32), L::splat(3));
        let scale = L::add32(L::or(low, L::shl(high, 4)), minus_32);
        to.scale::<L>(g, L::mul_f32(d, L::to_f32(scale)));
        look_up_32::<L>(from, offset_of!(IQ4_XS, qs) + 16 * g, &Tables::<L>::IQ4NL, to, 8 * g);
    }
});

panel_format!(MXFP4, offsets false, |from, to, L| {
    let e = from.byte::<L>(offset_of!(MXFP4, e));
    to.scale::<L>(0, L::from_bits(L::gather(&E8M0, e)));
    look_up_32::<L>(from, offset_of!(MXFP4, qs), &Tables::<L>::FP4, to, 0);
});
