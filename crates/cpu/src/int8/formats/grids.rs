//! The grids of the lattice formats, packed for gathers.

use crate::int8::lanes::{Planes, RowLanes};
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

/// The two bytes of IQ2's packed rows, apart.
const fn planes_iq2<const N: usize>(packed: &[u32; N]) -> Planes<N> {
    let mut planes = Planes([[0; N]; 2]);
    let mut i = 0;
    while i < N {
        planes.0[0][i] = packed[i] as u8;
        planes.0[1][i] = (packed[i] >> 8) as u8;
        i += 1;
    }
    planes
}

/// Two values of 3 bits per byte: values 0 and 1 of a row in the first, 2 and 3 in the second
/// plane.
const fn planes_iq3<const N: usize>(grid: &[[u8; 4]; N], magnitudes: &[u8; 8]) -> Planes<N> {
    let mut planes = Planes([[0; N]; 2]);
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 4 {
            let mut code = 0;
            while magnitudes[code] != grid[i][j] {
                code += 1;
            }
            planes.0[j / 2][i] |= (code as u8) << (3 * (j % 2));
            j += 1;
        }
        i += 1;
    }
    planes
}

/// Magnitudes of the IQ3 grids, by the 3-bit codes of the planes.
const IQ3XXS_MAGNITUDES: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
const IQ3S_MAGNITUDES: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// An IQ2 grid of N rows.
pub(super) struct Iq2Grid<const N: usize> {
    /// For gathers: the eight codes of a row.
    pub(super) words: [u32; N],
    /// For look-ups in registers.
    pub(super) planes: Planes<N>,
}

impl<const N: usize> Iq2Grid<N> {
    const fn new(grid: &[[u8; 8]; N]) -> Self {
        let words = pack_iq2(grid);
        Self { words, planes: planes_iq2(&words) }
    }
}

pub(super) static IQ2XXS: Iq2Grid<256> = Iq2Grid::new(IQ2XXS_GRID);
pub(super) static IQ2XS: Iq2Grid<512> = Iq2Grid::new(IQ2XS_GRID);
pub(super) static IQ2S: Iq2Grid<1024> = Iq2Grid::new(IQ2S_GRID);
pub(super) static IQ1: [u32; 2048] = pack_iq1(IQ1S_GRID);
static IQ3XXS_PLANES: Planes<256> = planes_iq3(IQ3XXS_GRID, &IQ3XXS_MAGNITUDES);
static IQ3S_PLANES: Planes<512> = planes_iq3(IQ3S_GRID, &IQ3S_MAGNITUDES);

/// An IQ3 grid of N rows, for one bias.
pub(super) struct Iq3Grid<const N: usize> {
    /// For gathers: the four stored magnitudes of a row.
    pub(super) words: &'static [u32; N],
    /// For look-ups in registers.
    pub(super) planes: &'static Planes<N>,
    /// Stored values by the planes' codes, with bit 3 for minus.
    pub(super) signed: [u8; 16],
}

/// Magnitudes as panels store them, `half` of them positive, then the same ones negative.
const fn signed<const N: usize>(magnitudes: &[u8; N], half: usize, bias: u8) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < N {
        table[i] = magnitudes[i] ^ bias;
        table[half + i] = magnitudes[i].wrapping_neg() ^ bias;
        i += 1;
    }
    table
}

/// Tables that depend on the bias of the instruction set.
pub(super) struct Grids<L>(L);

impl<L: RowLanes> Grids<L> {
    pub(super) const IQ3XXS: Iq3Grid<256> = Iq3Grid {
        words: &pack_iq3(IQ3XXS_GRID, L::BIAS),
        planes: &IQ3XXS_PLANES,
        signed: signed(&IQ3XXS_MAGNITUDES, 8, L::BIAS),
    };
    pub(super) const IQ3S: Iq3Grid<512> = Iq3Grid {
        words: &pack_iq3(IQ3S_GRID, L::BIAS),
        planes: &IQ3S_PLANES,
        signed: signed(&IQ3S_MAGNITUDES, 8, L::BIAS),
    };
    /// Stored values of the IQ2 grids by 2-bit code, with bit 2 for minus.
    pub(super) const IQ2: &'static [u8; 16] = &signed(&IQ2_MAGNITUDES, 4, L::BIAS);
}
