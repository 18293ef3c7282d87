//! Measuring and checking.
//!
//! [`OpCase`] is one kernel with its sizes. A case knows how to make its inputs, how to run
//! on any [`kernels::Backend`], what the reference gives, how far a device may be off and why, and
//! how many bytes and operations a call takes. So the parity test ([`OpCase::check`]) and the
//! benchmark ([`OpCase::bench`]) of a kernel are the same thing seen from two sides, and cannot
//! drift apart.
//!
//! * [`cases`]: the standard list, with names to filter by.
//! * [`bound`]: how far a product may be off, derived.
//! * [`parity`]: all of them, with every tile, on any number of devices.
//! * [`report`]: results as a Markdown table or as data.
//!
//! And of whole models: [`divergence`]: how far two computations are apart at a position; [`kld`]:
//! on a text, also with what one of them predicts in a file; [`routes`]: which experts a text uses;
//! [`draft_vocab`]: which tokens a small draft head has; [`requant`]: a model file in other formats;
//! [`convert`]: one from a Hugging Face folder; and what both are built on, [`transform`] and
//! [`imatrix`]. [`audit`] measures and tunes a device.

#![forbid(unsafe_code)]

pub mod audit;
mod binary;
mod blocks;
pub mod bound;
mod case;
pub mod cases;
mod compare;
pub mod convert;
pub mod divergence;
pub mod draft_vocab;
pub mod imatrix;
mod input;
pub mod kld;
mod memory;
mod ops;
pub mod parity;
mod random;
pub mod report;
pub mod requant;
pub mod routes;
mod timing;
pub mod transform;

pub use binary::FileError;
pub use blocks::weight_types;
pub use case::{Miss, OpCase};
pub use compare::{Fault, Place, Worst};
pub use input::Input;
pub use ops::{
    Attention, DeltaRule, DeltaStep, DraftInput, Experts, HcStep, HyperConnection, Matmul, Ngram,
    Projection, Sampling,
};
pub use random::Random;
pub use timing::{Budget, Cost, Measured};
