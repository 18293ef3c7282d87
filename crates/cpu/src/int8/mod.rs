//! Products of block-quantised weights with 8-bit activations.
//!
//! A *panel* is a few weight rows (one per 32-bit lane of a vector, [`lanes::RowLanes::ROWS`]) over
//! [`CHUNK`] values of the inner dimension. It is decoded once, in the order in which products read
//! it, and then multiplied with every row of the window ([`tile`]). The activations are brought to
//! 8 bits once per product, [`GROUP`] values to a scale ([`activation`]).
//!
//! Why a result's bits depend on nothing but the row: the sum over a group is an integer, exact in
//! any order, and the groups are added one after the other to one f32 per (weight row, window row).

pub(crate) mod activation;
mod fetch;
mod formats;
mod interleave;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod lanes_neon;
mod lanes_portable;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod panel;
mod product;
#[cfg(target_arch = "x86_64")]
mod quantise_x86;
mod tasks;
mod tile;

pub(crate) use activation::{ActBlock, Acts};
pub(crate) use fetch::Fetch;
pub(crate) use product::{Int8Kernels, Product, Scratch};
pub(crate) use tasks::{Load, PanelRows, PanelTasks};

/// Values of the inner dimension that a panel spans.
pub(crate) const CHUNK: usize = 256;

/// Values that share an activation scale.
pub(crate) const GROUP: usize = 32;

/// Window rows of the largest tile.
pub(crate) const MAX_TILE: usize = 4;

/// Weight rows of the largest panel.
pub(crate) const MAX_ROWS: usize = 16;
