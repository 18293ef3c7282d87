//! Tiles: how a device cuts the work of a product, and the table of those that were measured to be
//! the best on the machine at hand.
//!
//! A tile changes the time that a kernel takes and never a bit of its result. What its parameters
//! are is the device's business: lanes, rows and splits on a GPU, panels and tasks on a CPU. What
//! is not in the table is done with the tile that the device has built in.

use crate::{Activations, Backend, Error, Weight};
use gguf::TensorType;
use std::collections::BTreeMap;
use std::fmt;

/// Parameters of a kernel by name. A name that is left out is as built in, so the empty tile is the
/// built-in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tile(BTreeMap<String, u32>);

impl Tile {
    /// A tile of these parameters.
    pub fn new<N: Into<String>>(parameters: impl IntoIterator<Item = (N, u32)>) -> Self {
        Self(parameters.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// Whether everything is as built in.
    pub fn is_built_in(&self) -> bool {
        self.0.is_empty()
    }

    /// A parameter, if it is not as built in.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }

    /// The same with one parameter set.
    #[must_use]
    pub fn with(mut self, name: &str, value: u32) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// All parameters that are not as built in, by name.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_built_in() {
            return f.write_str("built in");
        }
        for (i, (name, value)) in self.parameters().enumerate() {
            write!(f, "{}{name}={value}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// Which product a matrix is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// All rows of the window times one matrix.
    Matrix,
    /// Each row times the matrices of its experts.
    Experts,
}

impl Product {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Experts => "experts",
        }
    }
}

/// A product with a weight: what a tile is chosen by, but for the rows of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Which product.
    pub product: Product,
    /// Format of the weights.
    pub ty: TensorType,
    /// Least precision of the activations.
    pub activations: Activations,
    /// Values of a weight row.
    pub n_in: usize,
    /// Weight rows, of one expert.
    pub n_out: usize,
}

impl Shape {
    /// That of a weight.
    pub fn of(weight: &Weight, activations: Activations) -> Self {
        let product = if weight.experts() > 1 { Product::Experts } else { Product::Matrix };
        let (ty, n_in, n_out) = (weight.ty(), weight.n_in(), weight.n_out());
        Self { product, ty, activations, n_in, n_out }
    }

    /// A name that no other shape has: `matrix/IQ3_S/2560x10240/int8`.
    pub fn name(&self) -> String {
        let activations = match self.activations {
            Activations::F32 => "f32",
            Activations::Int8 => "int8",
        };
        let (product, ty) = (self.product.name(), self.ty.name());
        format!("{product}/{ty}/{}x{}/{activations}", self.n_in, self.n_out)
    }
}

/// Rows of windows that are treated alike: so many, or fewer down to the class before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowClass(u8);

/// Most rows of each class; longer windows belong to the last.
const CLASSES: [usize; RowClass::COUNT] = [1, 2, 3, 4, 8, 128, 512, 1024];

impl RowClass {
    /// Number of classes.
    pub const COUNT: usize = 8;

    /// The class of a window of `rows` rows.
    pub fn of(rows: usize) -> Self {
        let place = CLASSES.iter().position(|most| rows <= *most).unwrap_or(Self::COUNT - 1);
        Self(place as u8)
    }

    /// All classes, by rising rows.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// The rows that the class is named after and measured with.
    pub fn rows(self) -> usize {
        CLASSES[self.index()]
    }

    /// Its place among all classes.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The best known tiles of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileTable(BTreeMap<(String, RowClass), Tile>);

impl TileTable {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The tile of a product, if one was found that beats the one built in.
    pub fn get(&self, shape: &Shape, rows: RowClass) -> Option<&Tile> {
        self.0.get(&(shape.name(), rows))
    }

    /// Notes a tile for the product of this [`Shape::name`].
    pub fn insert(&mut self, shape: String, rows: RowClass, tile: Tile) {
        self.0.insert((shape, rows), tile);
    }
}

/// A tile that the device has no kernel for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device} has no tile {tile}: {why}")]
pub struct NoSuchTile {
    /// Name of the device.
    pub device: &'static str,
    /// What was asked for.
    pub tile: Tile,
    /// What is wrong with it.
    pub why: String,
}

/// How fast a device moves bytes and starts work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// Bytes a second that all of the device together reads from a large buffer.
    pub read: f64,
    /// Bytes a second, read and written together, of a copy of a large buffer.
    pub copy: f64,
    /// Seconds from the start of an operation without work to its end.
    pub launch: f64,
}

/// A device whose tiles can be chosen.
pub trait Tunable: Backend {
    /// Measures the device, in a second or two.
    ///
    /// # Errors
    /// Memory that is short, or a fault of the device.
    fn speeds(&mut self) -> Result<Speeds, Error>;

    /// What measured times hold for: device, driver, instruction set, threads.
    fn device_key(&self) -> String;

    /// Values to try of each parameter for a product, those built in left out; the first parameter
    /// matters most.
    fn tile_parameters(&self, shape: &Shape, rows: RowClass) -> Vec<(&'static str, Vec<u32>)>;

    /// Matrices that are loaded from now on use the tiles of `table`; entries that the device has no
    /// kernel for are passed over.
    fn set_tiles(&mut self, table: TileTable);

    /// Uses `tile` for every product from now on, whatever the table says; `None` goes back to the
    /// table.
    ///
    /// # Errors
    /// [`NoSuchTile`], which changes nothing.
    fn force_tile(&mut self, tile: Option<&Tile>) -> Result<(), NoSuchTile>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_has_the_class_that_holds_it() {
        let of = |rows| RowClass::of(rows).rows();
        assert_eq!([1, 2, 3, 4, 5, 8, 9, 128].map(of), [1, 2, 3, 4, 8, 8, 128, 128]);
        assert_eq!([129, 512, 513, 1024, 5000].map(of), [512, 512, 1024, 1024, 1024]);
        assert!(RowClass::all().all(|class| RowClass::of(class.rows()) == class));
    }

    #[test]
    fn a_tile_is_read_by_name() {
        let tile = Tile::new([("tasks", 8)]).with("panels", 2);
        assert_eq!((tile.get("panels"), tile.get("rows")), (Some(2), None));
        assert_eq!(tile.to_string(), "panels=2 tasks=8");
        assert!(Tile::default().is_built_in() && !tile.is_built_in());
    }
}
