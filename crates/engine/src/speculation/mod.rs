//! Speculative decoding: how tokens are guessed, how many guesses pay, and what came of them.
//!
//! A *round* runs one window of the drawn token and its drafts; a draft is accepted if it equals
//! the token that the row before it draws. So nothing here changes a text, only its speed. The
//! parts: a [`Proposer`] guesses ([`Drafter`] with draft head and prompt lookup, as the [`Policy`]
//! decides), `verify` runs the window and draws, [`crate::Engine::decide`] commits.

mod acceptance;
mod adaptive;
mod costs;
mod drafter;
mod guard;
mod lookup;
mod mode;
mod policy;
#[cfg(test)]
mod policy_simulation;
mod propose;
mod round;
mod stats;
pub(crate) mod verify;

pub use drafter::Drafter;
pub(crate) use drafter::{Begun, Chain, HasHead, Next, Text};
pub use guard::{Head, SubsetGuard, Switch, Verified};
pub use lookup::{Lookup, LookupDraft};
pub use mode::{MAX_DEPTH, ModeError, SpecMode};
pub use policy::{Offer, Plan, Policy};
pub use propose::{Ask, Drafts, NoDrafts, Proposer};
pub use round::{Round, Source};
pub use stats::{DepthStats, SourceStats, SpecStats, TimeStats};
