//! The report of an audit: data that serialises, and the same in words ([`markdown()`]) and as a page
//! with plots ([`html()`]).

mod findings;
mod html;
mod markdown;
mod plot;
mod svg;

pub use html::html;
pub use markdown::markdown;

use super::{Device, Drop, Found, Other};

/// Everything that an audit found.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Version of tuff.
    pub version: String,
    /// The device.
    pub device: Device,
    /// Name of the backend.
    pub backend: String,
    /// Speed under lasting load, if it was measured.
    pub drop: Option<Drop>,
    /// File name of the model, if there was one.
    pub model: Option<String>,
    /// Experts that the rows of a window have in common, 0 to 1.
    pub share: f64,
    /// The products, in their order in a window.
    pub products: Vec<Product>,
    /// Operations without tiles.
    pub others: Vec<Other>,
    /// Where the time of a window goes; none without a model.
    pub windows: Vec<WindowProfile>,
    /// Whole windows with the built-in tiles and with the table; none without a model.
    pub effects: Vec<Effect>,
    /// Where the tile table is kept.
    pub table: String,
    /// Why something is missing, a line each.
    pub notes: Vec<String>,
}

/// A product and what was found of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Product {
    /// [`kernels::tiles::Shape::name`].
    pub shape: String,
    /// What the weights are for.
    pub roles: Vec<String>,
    /// How many of them a window has.
    pub uses: usize,
    /// By rising rows.
    pub found: Vec<Found>,
}

/// Where the time of a window goes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct WindowProfile {
    /// Rows of the window.
    pub rows: usize,
    /// Seconds of the whole window.
    pub seconds: f64,
    /// Its parts, in their order.
    pub parts: Vec<PartTime>,
}

/// A part of a window.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PartTime {
    /// The family.
    pub group: String,
    /// The operation, or the role of the matrix.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Bytes of weights and states; 0 where they are not known.
    pub bytes: u64,
}

/// What the table changes in a whole window.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Effect {
    /// Rows of the window.
    pub rows: usize,
    /// Median seconds with the built-in tiles.
    pub before: f64,
    /// With the table, from windows in turn.
    pub after: f64,
    /// Standard error of the ratio of the two.
    pub noise: f64,
    /// Seconds that the products' own gains add up to.
    pub estimated_gain: f64,
    /// Whether the window gains by more than the noise, so that the tiles are used for it.
    pub used: bool,
}

impl Report {
    /// Seconds that the products of a window of `rows` rows gain by the table, by their own times.
    pub fn estimated_gain(products: &[Product], rows: usize) -> f64 {
        let gain = |product: &Product| {
            let found = product.found.iter().find(|found| found.rows == rows)?;
            Some(product.uses as f64 * found.built_in * (1.0 - found.ratio))
        };
        products.iter().filter_map(gain).sum()
    }

    /// Share of the bandwidth of memory that a product reaches.
    pub fn share_of_memory(&self, found: &Found) -> f64 {
        found.speed() / self.device.memory()
    }
}
