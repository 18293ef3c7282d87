//! The parameters of products on the CPU, see [`kernels::tiles`].

use crate::int8::{Fetch, MAX_TILE, Product};
use crate::{Cpu, CpuMatrix};
use kernels::tiles::{NoSuchTile, RowClass, Shape, Speeds, Tile, TileTable, Tunable};
use kernels::{Activations, Error, Weight};

/// Weight rows per task with f32 activations, unless told otherwise: enough work to outweigh taking
/// it.
const TASK_ROWS: usize = 16;

/// Most weight rows of a task that can be asked for.
const MAX_TASK_ROWS: u32 = 1024;

/// Most tasks per thread that can be asked for.
const MAX_TASKS: u32 = 1024;

/// How a product is cut; `None` is as built in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTile {
    /// Panels that are multiplied together.
    pub(crate) panels: Option<u32>,
    /// Window rows of a tile, at most.
    rows: Option<u32>,
    /// Tasks per thread.
    pub(crate) tasks: Option<u32>,
    /// What is asked for while a panel is decoded.
    pub(crate) fetch: Option<Fetch>,
    /// Weight rows of a task with f32 activations.
    task_rows: Option<u32>,
}

impl CpuTile {
    /// Window rows of a tile with 8-bit activations.
    pub(crate) fn rows(&self) -> usize {
        self.rows.map_or(MAX_TILE, |rows| rows as usize)
    }

    /// Weight rows of a task with f32 activations.
    pub(crate) fn task_rows(&self) -> usize {
        self.task_rows.map_or(TASK_ROWS, |rows| rows as usize)
    }

    fn read(tile: &Tile) -> Result<Self, String> {
        let mut own = Self::default();
        for (name, value) in tile.parameters() {
            let (field, most) = match name {
                "panels" => (&mut own.panels, 2),
                "rows" => (&mut own.rows, MAX_TILE as u32),
                "tasks" => (&mut own.tasks, MAX_TASKS),
                "task_rows" => (&mut own.task_rows, MAX_TASK_ROWS),
                "prefetch" => {
                    let all = Fetch::ALL.get(value as usize).copied();
                    own.fetch = Some(all.ok_or_else(|| format!("there is no {name}={value}"))?);
                    continue;
                }
                _ => return Err(format!("there is no {name}={value}")),
            };
            if !(1..=most).contains(&value) {
                return Err(format!("{name} is 1 to {most}"));
            }
            *field = Some(value);
        }
        Ok(own)
    }
}

/// The tiles of a matrix, one for each class of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatrixTiles([CpuTile; RowClass::COUNT]);

impl MatrixTiles {
    /// What `table` says of a weight.
    pub(crate) fn new(table: &TileTable, weight: &Weight, activations: Activations) -> Self {
        let mut own = Self::default();
        if table.is_empty() {
            return own;
        }
        let shape = Shape::of(weight, activations);
        for class in RowClass::all() {
            let tile = table.get(&shape, class).and_then(|tile| CpuTile::read(tile).ok());
            own.0[class.index()] = tile.unwrap_or_default();
        }
        own
    }
}

impl CpuMatrix {
    /// The tile for a window of `rows` rows.
    pub(crate) fn tile(&self, forced: Option<CpuTile>, rows: usize) -> CpuTile {
        forced.unwrap_or_else(|| self.tiles.0[RowClass::of(rows).index()])
    }
}

impl Tunable for Cpu {
    fn speeds(&mut self) -> Result<Speeds, Error> {
        let read = self.read_bandwidth()?.bytes_per_second;
        Ok(Speeds { read, copy: self.copy_bandwidth()?, launch: self.launch_time() })
    }

    fn device_key(&self) -> String {
        let (name, isa) = (crate::cores::name(), self.isa().name());
        format!("{name} {isa} threads={} repack={}", self.threads(), self.copies.name())
    }

    fn tile_parameters(&self, shape: &Shape, rows: RowClass) -> Vec<(&'static str, Vec<u32>)> {
        let product = self.product_of(shape);
        let Some(product) = product else {
            return vec![("task_rows", vec![8, 32, 64])];
        };
        let mut all = vec![("tasks", vec![2, 4, 8, 32, 64])];
        if product.rows() > product.panel_rows() {
            all.push(("panels", vec![1, 2]));
        }
        all.push(("prefetch", vec![0, 1, 2]));
        if rows.rows() > 2 {
            all.push(("rows", vec![1, 2, 3]));
        }
        all
    }

    fn set_tiles(&mut self, table: TileTable) {
        self.tiles = table;
    }

    fn force_tile(&mut self, tile: Option<&Tile>) -> Result<(), NoSuchTile> {
        let read = tile.map(|tile| {
            let fault = |why| NoSuchTile { device: "cpu", tile: tile.clone(), why };
            CpuTile::read(tile).map_err(fault)
        });
        self.forced = read.transpose()?;
        Ok(())
    }
}

impl Cpu {
    /// The product with 8-bit activations of a shape, if it has one.
    fn product_of(&self, shape: &Shape) -> Option<Product> {
        (shape.activations == Activations::Int8).then(|| self.int8.product(shape.ty))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuOptions;
    use gguf::TensorType;
    use kernels::tiles;

    #[test]
    fn a_tile_is_read_or_refused() {
        let read = |name: &str, value| CpuTile::read(&Tile::new([(name, value)]));
        assert_eq!(read("panels", 2).unwrap().panels, Some(2));
        assert_eq!(read("prefetch", 0).unwrap().fetch, Some(Fetch::Nothing));
        assert_eq!(read("prefetch", 2).unwrap().fetch, Some(Fetch::InOrder));
        assert_eq!(read("rows", 3).unwrap().rows(), 3);
        let refused = [("panels", 3), ("panels", 0), ("rows", 5), ("prefetch", 3), ("lanes", 1)];
        for (name, value) in refused {
            assert!(read(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(CpuTile::read(&Tile::default()), Ok(CpuTile::default()));
    }

    #[test]
    fn every_value_to_try_is_a_tile() {
        let mut cpu = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() });
        for (ty, activations) in
            [(TensorType::IQ3_S, Activations::Int8), (TensorType::F16, Activations::F32)]
        {
            let product = tiles::Product::Matrix;
            let shape = Shape { product, ty, activations, n_in: 2560, n_out: 640 };
            for rows in RowClass::all() {
                for (name, values) in cpu.tile_parameters(&shape, rows) {
                    for value in values {
                        cpu.force_tile(Some(&Tile::new([(name, value)]))).unwrap();
                    }
                }
            }
        }
        let unknown = Tile::new([("lanes", 8)]);
        let refused = cpu.force_tile(Some(&unknown)).unwrap_err();
        assert_eq!(refused.to_string(), "cpu has no tile lanes=8: there is no lanes=8");
    }
}
