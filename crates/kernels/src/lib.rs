//! The contract of each kernel family, and a reference implementation of all of them.
//!
//! A *family* is a group of operations of the model that a device implements together: `gemv`,
//! `moe`, `gdn`, `qsa`, `hc`, `ple`, `head`. Each has a trait in the file of its name; the trait's
//! documentation is the contract (formula, shapes, what state is written). [`reference::Reference`]
//! implements them in plain code that reads like the model description in `docs/qwen4exp.md`; every
//! other device is held against it.
//!
//! Rules that hold for all families:
//!
//! - Activations are f32, row-major `[T, n]`: one row per token of the window.
//! - A row's result never depends on the other rows of the window, on how rows are grouped, or on
//!   the number of threads. Sums over the inner dimension run in one order fixed by the shape.
//! - Shapes are validated when weights are loaded. Operations on loaded weights assert their buffer
//!   sizes (a violated assertion is a bug of the caller, never a property of a model file) and do
//!   not return errors; a device that can fail later reports it from [`Device::download`].
#![forbid(unsafe_code)]

pub mod device;
pub mod error;
pub mod gdn;
pub mod gemv;
pub mod hc;
pub mod head;
pub mod host;
pub mod kv;
pub mod moe;
pub mod mtp;
pub mod ple;
pub mod qsa;
pub mod reference;
pub mod rope;
pub mod scalar;
pub mod stored;
pub mod tiles;
pub mod weight;
pub mod window;

pub use device::{Activations, Backend, Device};
pub use error::Error;
pub use gdn::{Gdn, GdnShape};
pub use gemv::Gemv;
pub use hc::{Hc, HcShape, HcWeights};
pub use head::Head;
pub use kv::KvType;
pub use moe::Moe;
pub use mtp::Mtp;
pub use ple::{Ple, PleShape, PleWeights};
pub use qsa::{Qsa, QsaKeys, QsaShape};
pub use weight::Weight;
pub use window::{Commit, Run, Window};
