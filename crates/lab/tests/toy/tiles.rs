//! Tiles of the toy: harmless ones, and one that gives wrong values.

use super::{Toy, Way};
use kernels::Error;
use kernels::tiles::{NoSuchTile, RowClass, Shape, Speeds, Tile, TileTable, Tunable};

/// The parameter of the wrong tile; any value is wrong.
const WRONG: &str = "wrong";

impl Toy {
    /// What the wrong tile does to the values of a product.
    pub(super) fn cut(&self, y: &mut [f32]) {
        if self.tile.get(WRONG).is_some() {
            y[0] += 1.0;
        }
    }

    /// Whether a product may be left out: the wrong tile is also the fastest.
    pub(super) fn skips(&self) -> bool {
        self.tile.get(WRONG) == Some(2)
    }

    /// What comes of the tile where the toy has a device that faults with it.
    pub(super) fn faults(&self) -> Result<(), Error> {
        let (device, why) = ("toy", "it is in the way".to_owned());
        match (self.way, self.tile.get("harmless")) {
            (Way::Refused, Some(2)) => {
                Err(Error::KernelBuild { device, kernel: "harmless=2".to_owned(), why })
            }
            (Way::Lost, Some(2)) => Err(Error::DeviceLost { device, why }),
            _ => Ok(()),
        }
    }

    /// The tile that is forced.
    pub(crate) fn tile(&self) -> &Tile {
        &self.tile
    }
}

impl Tunable for Toy {
    fn speeds(&mut self) -> Result<Speeds, Error> {
        Ok(Speeds { read: 1e9, copy: 1e9, launch: 1e-6 })
    }

    fn device_key(&self) -> String {
        "toy".to_owned()
    }

    fn tile_parameters(&self, _: &Shape, _: RowClass) -> Vec<(&'static str, Vec<u32>)> {
        vec![("harmless", vec![1, 2]), (WRONG, vec![1, 2])]
    }

    fn set_tiles(&mut self, _: TileTable) {}

    fn force_tile(&mut self, tile: Option<&Tile>) -> Result<(), NoSuchTile> {
        self.tile = tile.cloned().unwrap_or_default();
        Ok(())
    }
}
