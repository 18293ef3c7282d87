//! The audit: how fast each kernel of a model is on the device at hand, against what the device can
//! do, and whether another tile does better.
//!
//! [`Subject`]s are the products of a model. [`sweep`] times each with the tile that is in use and
//! with others in turn, and keeps what wins by more than the noise; a [`Store`] keeps what was found
//! from run to run, and is the table that the engine loads. [`device`] is what the shares are of,
//! [`others`] times the families without tiles. [`report`] puts it all into words and pictures.

mod device;
mod duel;
mod others;
pub mod report;
mod store;
mod subject;
mod sweep;

pub use device::{Device, Drop, clock_drop, device};
pub use duel::{Duel, Side, compare};
pub use others::{Other, others};
pub use store::{Gain, Store, StoreError};
pub use subject::{Products, Subject, flash_next, of_model};
pub use sweep::{Effort, Found, Search, sweep};
