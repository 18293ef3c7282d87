//! How a product is cut into workgroups.

use kernels::tiles::RowClass;

/// A tile of the kernel for few rows. Lanes and splits together decide in which order a sum is
/// added up, so they follow from the shape of the weight alone; rows and subgroups change no bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// L: lanes that share a weight row.
    pub(crate) lanes: u32,
    /// R: weight rows of a lane group.
    pub(crate) rows: u32,
    /// S: 32 threads each, in a workgroup.
    pub(crate) subgroups: u32,
    /// K: ways that the inner dimension is split.
    pub(crate) splits: u32,
}

/// Weight rows below which a device has too few workgroups, unless the inner dimension is split.
const FEW_ROWS: usize = 4096;

/// Weight rows from which there are workgroups enough when a lane group takes two.
const ROWS_FOR_TWO: usize = 16384;

/// Units that a lane asks for before it needs the first. Changes no bit.
pub(crate) const UNROLL: u32 = 2;

impl Tile {
    /// The tile that is built in for weight rows of `units` units: of those that were timed on an
    /// H200, the best in the geometric mean over formats.
    pub(crate) fn built_in(units: usize, weight_rows: usize, experts: usize) -> Self {
        let lanes = units.next_power_of_two().clamp(1, 16) as u32;
        // A row of a window has rows of several experts, so there are workgroups enough.
        let splits = if units >= 64 && weight_rows <= FEW_ROWS && experts == 1 { 4 } else { 1 };
        let rows = if weight_rows >= ROWS_FOR_TWO { 2 } else { 1 };
        Self { lanes, rows, subgroups: 4, splits }
    }

    /// Lanes of a weight row, in whatever splits.
    pub(crate) fn all_lanes(self) -> u32 {
        self.lanes * self.splits
    }

    /// Weight rows of a workgroup.
    pub(crate) fn rows_per_workgroup(self) -> usize {
        (32 * self.subgroups / self.all_lanes() * self.rows) as usize
    }
}

/// What a table may choose of a tile; `None` is as built in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FewTile {
    pub(crate) rows: Option<u32>,
    pub(crate) subgroups: Option<u32>,
}

impl FewTile {
    /// `tile` with what is chosen here.
    pub(crate) fn applied(self, tile: Tile) -> Tile {
        let least = tile.all_lanes().div_ceil(32);
        Tile {
            rows: self.rows.unwrap_or(tile.rows),
            // A row's lanes are in one workgroup.
            subgroups: self.subgroups.unwrap_or(tile.subgroups).max(least),
            ..tile
        }
    }
}

/// The tiles of a matrix, one for each class of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowTiles(pub(crate) [FewTile; RowClass::COUNT]);

impl RowTiles {
    /// For a window of `rows` rows.
    pub(crate) fn get(&self, rows: usize) -> FewTile {
        self.0[RowClass::of(rows).index()]
    }
}

/// How many rows of activations a kernel multiplies at once, and how. Changes no bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    /// Each unit of a weight is used for so many, in registers: 1 to 4, or 8.
    Few(u32),
    /// 16 or 64, through workgroup memory.
    Many(u32),
}

/// Windows of so many rows are worth a tile of 64.
const MANY_ROWS: usize = 32;

/// Weight rows of floats that are not worth a tile of 64 even for many rows: routers and gates.
const FEW_FLOAT_ROWS: usize = 1024;

/// Window rows up to which that holds: from some 700 on an H200 is busy with tiles of 64.
const FEW_FLOAT_TOKENS: usize = 512;

/// Pairs per expert, on average, that are worth a tile of 16.
const MANY_PAIRS: usize = 8;

impl Width {
    /// For a window of `rows` rows and one matrix.
    pub(crate) fn of_rows(rows: usize) -> Self {
        match rows {
            0..=4 => Self::Few(rows.max(1) as u32),
            MANY_ROWS.. => Self::Many(64),
            _ => Self::Few(8),
        }
    }

    /// The same for `weight_rows` weight rows of floats: of a few of them tiles of 64 would leave most
    /// of the device without work, and there is nothing to decode once for many.
    pub(crate) fn of_floats(rows: usize, weight_rows: usize) -> Self {
        match Self::of_rows(rows) {
            Self::Many(_) if weight_rows <= FEW_FLOAT_ROWS && rows <= FEW_FLOAT_TOKENS => {
                Self::Few(8)
            }
            width => width,
        }
    }

    /// For `pairs` pairs of `rows` rows with `experts` experts.
    pub(crate) fn of_pairs(rows: usize, pairs: usize, experts: usize) -> Self {
        match Self::of_rows(rows) {
            Self::Many(_) if pairs / experts >= MANY_PAIRS => Self::Many(16),
            Self::Many(_) => Self::Few(8),
            few => few,
        }
    }

    /// Rows of activations at once.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::Few(tokens) | Self::Many(tokens) => tokens,
        }
    }

    /// Weight rows and rows of activations of a thread of the kernel for many.
    pub(crate) fn of_thread(self) -> (u32, u32) {
        if self.tokens() == 64 { (4, 8) } else { (2, 4) }
    }

    /// Weight rows of a workgroup.
    pub(crate) fn weight_rows(self, tile: Tile) -> usize {
        match self {
            Self::Few(_) => tile.rows_per_workgroup(),
            // 128 threads.
            Self::Many(tokens) => {
                let (rows, of_thread) = self.of_thread();
                (128 / (tokens / of_thread) * rows) as usize
            }
        }
    }
}
