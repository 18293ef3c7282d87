//! Writing a model file from another source of weights: what requantising and converting share.
//!
//! * [`Recipe`]: which role of tensor gets which format.
//! * [`Target`]: the files to be written, laid out before any weight is read.
//! * [`Source`]: where the encoded rows come from.
//! * [`write()`]: carries it out, row block by row block in several threads, with a journal beside
//!   the unfinished files so that a run that was stopped goes on where it was, and the real names
//!   only when all is on the disk.

mod error;
mod hazard;
mod journal;
mod label;
mod partial;
mod pieces;
mod recipe;
mod shared_file;
mod sizes;
mod target;
mod work;
mod write;

pub use error::{Error, Narrow};
pub use hazard::{Hazard, hazards};
pub use pieces::Flow;
pub use recipe::{Choice, ChoiceError, GROUPS, Group, Recipe, encodable_names, single_roles};
pub use sizes::{SizeRow, Sizes};
pub use target::{Plan, PlannedPart, PlannedTensor, Target};
pub use work::{RowSource as Source, Scratch};
pub use write::{Outcome, Overwrite, Progress, Resume, Settings, Stage, check, write};

pub(crate) use error::io_error;
pub(crate) use label::set_labels;
pub(crate) use shared_file::SharedFile;
