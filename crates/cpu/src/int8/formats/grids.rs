//! The grids of the lattice formats, packed for gathers.

use crate::int8::lanes::RowLanes;
use quant::codebook::{IQ1S_GRID, IQ2S_GRID, IQ2XS_GRID, IQ2XXS_GRID, IQ3S_GRID, IQ3XXS_GRID};

/// Magnitudes of the IQ2 grids, by the 2-bit codes of the packed tables.
const IQ2_MAGNITUDES: [u8; 3] = [8, 25, 43];

/// Eight values of 2 bits each per row: indices into [`IQ2_MAGNITUDES`].
const fn pack_iq2<const N: usize>(grid: &[[u8; 8]; N]) -> [u32; N] {
    let mut packed = [0; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 8 {
            let mut code = 0;
            while IQ2_MAGNITUDES[code] != grid[i][j] {
                code += 1;
            }
            packed[i] |= (code as u32) << (2 * j);
            j += 1;
        }
        i += 1;
    }
    packed
}

/// Eight values of 2 bits each per row: the values -1, 0, 1 plus 1.
const fn pack_iq1<const N: usize>(grid: &[[u8; 8]; N]) -> [u32; N] {
    let mut packed = [0; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 8 {
            packed[i] |= (grid[i][j].wrapping_add(1) as u32) << (2 * j);
            j += 1;
        }
        i += 1;
    }
    packed
}

/// Four magnitudes per row as panels store them.
const fn pack_iq3<const N: usize>(grid: &[[u8; 4]; N], bias: u8) -> [u32; N] {
    let mut packed = [0; N];
    let mut i = 0;
    while i < N {
        packed[i] = u32::from_le_bytes(grid[i]) ^ u32::from_le_bytes([bias; 4]);
        i += 1;
    }
    packed
}

pub(super) static IQ2XXS: [u32; 256] = pack_iq2(IQ2XXS_GRID);
pub(super) static IQ2XS: [u32; 512] = pack_iq2(IQ2XS_GRID);
pub(super) static IQ2S: [u32; 1024] = pack_iq2(IQ2S_GRID);
pub(super) static IQ1: [u32; 2048] = pack_iq1(IQ1S_GRID);

/// Tables that depend on the bias of the instruction set.
pub(super) struct Grids<L>(L);

impl<L: RowLanes> Grids<L> {
    pub(super) const IQ3XXS: &'static [u32; 256] = &pack_iq3(IQ3XXS_GRID, L::BIAS);
    pub(super) const IQ3S: &'static [u32; 512] = &pack_iq3(IQ3S_GRID, L::BIAS);
    /// The IQ2 magnitudes by 2-bit code.
    pub(super) const IQ2: &'static [u8; 16] = &{
        let mut table = [0; 16];
        let mut i = 0;
        while i < 3 {
            table[i] = IQ2_MAGNITUDES[i] ^ L::BIAS;
            i += 1;
        }
        table
    };
}

/// Four values of 2 bits, from the low byte of every lane to a byte each.
///
/// # Safety
/// The instruction set of `L` must be enabled.
#[inline(always)]
pub(super) unsafe fn spread_2<L: RowLanes>(v: L::V) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let v = L::and(v, L::splat(0xff));
        let v = L::and(L::or(v, L::shl(v, 12)), L::splat(0x000f_000f));
        L::and(L::or(v, L::shl(v, 6)), L::splat(0x0303_0303))
    }
}
