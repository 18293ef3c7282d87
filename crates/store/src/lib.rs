//! Weights that are too many for the memory: experts and rows of the n-gram table, read from the
//! model's files as a window wants them.
//!
//! [`ExpertStore`] has a fixed number of slots in memory, each for one expert of one layer (gate,
//! up and down matrices together). A window names the experts it has chosen; those in a slot are
//! used at once, the others are read meanwhile by a few threads, straight from the disk where the
//! system allows. When slots run out, the expert goes that was not used for the longest time, never
//! one that the running window needs. [`TableStore`] does the same for single rows of a table.
//!
//! What is in memory decides about speed only: the bytes are the file's, and results do not depend
//! on when they came.
#![forbid(unsafe_code)]

mod buffer;
mod counters;
mod disk;
mod error;
mod experts;
mod layout;
mod pool;
mod profile;
mod residency;
mod speed;
mod state;
mod table;

pub use counters::Counters;
pub use disk::{Disk, FileDisk, Way};
pub use error::StoreError;
pub use experts::{ExpertStore, StoreOptions, StoreSize};
pub use layout::{LayerLayout, Layout, Matrices, Stack};
pub use profile::Profile;
pub use speed::{ReadSpeed, read_speed};
pub use table::{TableLayout, TableStore};
