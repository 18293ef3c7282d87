//! Speculative decoding: what is decided from round to round.

mod guard;

pub use guard::{Head, SubsetGuard, Switch, Verified};
