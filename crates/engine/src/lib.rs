//! The engine: window forward pass, slots, sampling, generation.
//!
//! An [`Engine`] is a checkpoint loaded onto a [`kernels::Backend`], with a number of slots (one
//! sequence's state each). [`Engine::forward`] runs one window: the next tokens of any slots. A
//! token's logits are the same bits whatever else is in its window. [`Generator`] is the loop that
//! draws tokens and streams text; [`speculation`] makes it faster and never changes it,
//! [`cache`] spares it what was computed before. [`timed`] shows where the time goes. [`memory`]
//! says what all of it takes, before a model is loaded.
#![forbid(unsafe_code)]

mod answer;
pub mod batch;
pub mod cache;
mod capacity;
mod config;
mod constraint;
mod drafting;
mod engine;
mod error;
mod feeds;
mod fingerprint;
mod forecast;
mod forward;
mod generate;
mod layers;
mod logits;
pub mod memory;
mod mtp;
mod probe;
mod reads;
mod routers;
mod rules;
mod sampling;
mod scratch;
mod shapes;
mod slots;
mod snapshot;
pub mod speculation;
mod split;
mod states;
mod stop;
mod stores;
pub mod timed;
mod weights;

pub use capacity::{DeviceMemory, token_bytes};
pub use config::EngineConfig;
pub use constraint::{Constraint, Grammar, Matcher, TokenSet};
pub use drafting::{DraftStep, TakenBlock};
pub use engine::{Engine, WeightHomes};
pub use error::Error;
pub use feeds::{Feed, Want};
pub use generate::{Event, Finish, Generator, Request, Summary};
pub use kernels::Commit;
pub use kernels::mtp::NormExtent;
pub use logits::LogitCounts;
pub use probe::{NoProbe, Probe, RouterView};
pub use reads::WeightReads;
pub use rules::{Detail, Opening, ReasoningBudget, Rules, TokenLogProbs};
pub use sampling::{Context, Draft, SamplingError, SamplingParams, philox4x32_10, uniform};
pub use snapshot::{PIECE_TOKENS, Piece, Snapshot};
pub use split::{ExpertSplit, number as model_number};
pub use stop::StopMatcher;
pub use store;
pub use stores::{Ahead, DraftingBlock, OpenDisk, StoreSettings, Stores, layout, lock_dense};
pub use weights::activations_of;
