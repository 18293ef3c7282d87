//! What an audit asks of the GPU: its speeds, and the tiles of products.
//!
//! A table may choose rows and subgroups, which change no bit. How many lanes share a weight row
//! decides the order of its sums, so it is the built-in number for every window.

use crate::NAME;
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::formats::UNIT;
use crate::tile::{FewTile, RowTiles, Tile};
use kernels::tiles::{NoSuchTile, RowClass, Shape, Speeds, Tile as NamedTile, TileTable, Tunable};
use kernels::{Activations, Error, Weight};

/// Bytes that are read and copied, more than any cache holds; less where memory is short.
const LARGE: [usize; 3] = [512 << 20, 128 << 20, 16 << 20];

/// Times that a speed is measured; the best counts.
const PASSES: usize = 4;

/// Operations without work that are timed together.
const LAUNCHES: usize = 500;

/// Rows above which the kernel for many takes over, which has no tiles to choose.
const FEW_ROWS: usize = 31;

impl Gpu {
    /// Bytes a second that the device reads, from a product of f32 weights with one row.
    fn read_speed(&mut self, bytes: usize) -> Result<f64, Error> {
        use gguf::TensorType;
        use kernels::weight::WeightShape;
        let n_in = 4096;
        let n_out = bytes / 4 / n_in;
        let shape = WeightShape { n_in, n_out, experts: 1 };
        let weight =
            Weight::new("memory", TensorType::F32, shape, vec![0; 4 * n_in * n_out].into())?;
        let matrix = self.load(&weight, Activations::F32)?;
        drop(weight);
        let allocator = &self.recorder.allocator;
        let x = allocator.storage(n_in, "activations")?;
        let y = allocator.storage(n_out, "activations")?;
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            if let Some(x) = self.ready(&matrix, &x, 1) {
                self.product(&matrix, &x, 1, &y);
            }
            best = best.min(self.recorder.finish()?);
        }
        Ok((4 * n_in * n_out) as f64 / best)
    }

    fn copy_speed(&mut self, bytes: usize) -> Result<f64, Error> {
        let from = self.recorder.allocator.storage(bytes / 4, "a copy")?;
        let to = self.recorder.allocator.storage(bytes / 4, "a copy")?;
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            self.recorder.copy((&from, 0), (&to, 0), bytes / 4);
            // The clock is looked at behind a kernel that needs the copy.
            self.elementwise(Elementwise::Swiglu, &[from.all(), to.all()], None, (1, UNIT, 0));
            best = best.min(self.recorder.finish()?);
        }
        Ok(2.0 * bytes as f64 / best)
    }

    /// Seconds from the start of one small kernel to that of the next, which needs its result.
    fn launch_time(&mut self) -> Result<f64, Error> {
        let make = |gpu: &Gpu| gpu.recorder.allocator.storage(UNIT, "activations");
        let (a, b) = (make(self)?, make(self)?);
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            for _ in 0..LAUNCHES {
                self.elementwise(Elementwise::Swiglu, &[a.all(), b.all()], None, (1, UNIT, 0));
            }
            best = best.min(self.recorder.finish()?);
        }
        Ok(best / LAUNCHES as f64)
    }

    /// What the largest size that there is memory for gives.
    fn largest(
        &mut self,
        mut measure: impl FnMut(&mut Self, usize) -> Result<f64, Error>,
    ) -> Result<f64, Error> {
        let limit = usize::try_from(self.recorder.allocator.limit()).unwrap_or(usize::MAX);
        let mut last = Err(Error::OutOfMemory { device: NAME, bytes: LARGE[2], what: "a copy" });
        for bytes in LARGE.into_iter().filter(|bytes| *bytes <= limit) {
            last = measure(self, bytes);
            if !matches!(last, Err(Error::OutOfMemory { .. })) {
                break;
            }
        }
        last
    }

    /// What a table says of a weight.
    pub(crate) fn row_tiles(&self, weight: &Weight, activations: Activations) -> RowTiles {
        let mut own = RowTiles::default();
        if !self.tiles.is_empty() {
            let shape = Shape::of(weight, activations);
            for class in RowClass::all() {
                let tile = self.tiles.get(&shape, class);
                own.0[class.index()] =
                    tile.and_then(|tile| FewTile::read(tile).ok()).unwrap_or_default();
            }
        }
        own
    }
}

impl FewTile {
    fn read(tile: &NamedTile) -> Result<Self, String> {
        let mut own = Self::default();
        for (name, value) in tile.parameters() {
            match (name, value) {
                ("rows", 1..=4) => own.rows = Some(value),
                ("subgroups", 1 | 2 | 4 | 8) => own.subgroups = Some(value),
                _ => return Err(format!("there is no {name}={value}")),
            }
        }
        Ok(own)
    }
}

impl Tunable for Gpu {
    fn speeds(&mut self) -> Result<Speeds, Error> {
        let copy = self.largest(Self::copy_speed)?;
        let read = self.largest(Self::read_speed)?;
        Ok(Speeds { read, copy, launch: self.launch_time()? })
    }

    /// Products without 8-bit activations have times of their own.
    fn device_key(&self) -> String {
        let exact = if self.activations == Activations::F32 { " f32" } else { "" };
        format!("{NAME} {}{exact}", self.title())
    }

    fn tile_parameters(&self, shape: &Shape, rows: RowClass) -> Vec<(&'static str, Vec<u32>)> {
        if rows.rows() > FEW_ROWS {
            return Vec::new();
        }
        let experts = if shape.product == kernels::tiles::Product::Experts { 2 } else { 1 };
        let built_in = Tile::built_in(shape.n_in.div_ceil(UNIT), shape.n_out, experts);
        let others =
            |values: &[u32], own: u32| values.iter().copied().filter(|v| *v != own).collect();
        vec![
            ("rows", others(&[1, 2, 4], built_in.rows)),
            ("subgroups", others(&[2, 4, 8], built_in.subgroups)),
        ]
    }

    fn set_tiles(&mut self, table: TileTable) {
        self.tiles = table;
    }

    fn force_tile(&mut self, tile: Option<&NamedTile>) -> Result<(), NoSuchTile> {
        let read = tile.map(|tile| {
            let fault = |why| NoSuchTile { device: NAME, tile: tile.clone(), why };
            FewTile::read(tile).map_err(fault)
        });
        self.forced_few = read.transpose()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gpu;

    #[test]
    fn a_tile_is_read_or_refused() {
        let read = |name: &str, value| FewTile::read(&NamedTile::new([(name, value)]));
        assert_eq!(read("rows", 2).unwrap().rows, Some(2));
        assert_eq!(read("subgroups", 8).unwrap().subgroups, Some(8));
        for (name, value) in [("rows", 0), ("rows", 5), ("subgroups", 3), ("lanes", 8)] {
            assert!(read(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn speeds_are_numbers() {
        let Some(mut gpu) = gpu() else { return };
        let launch = gpu.launch_time().unwrap();
        assert!(launch.is_finite());
        // Of a copy or a read a clock that is coarse may see nothing.
        assert!(!gpu.copy_speed(1 << 20).unwrap().is_nan());
        assert!(!gpu.read_speed(1 << 20).unwrap().is_nan());
    }
}
