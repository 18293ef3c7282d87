//! What a qwen4exp checkpoint means: hyper-parameters, tensor names to typed roles, the n-gram
//! hash, tokenizer and chat template. No tensor arithmetic: that is for the crates above.

#![forbid(unsafe_code)]

mod checkpoint;
mod draft_vocab;
mod error;
mod hparams;
mod keys;
mod load;
mod mtp_file;
mod ngram_constants;
mod read;
mod read_ple;
mod role;
mod shape;
mod warnings;

pub mod chat;
pub mod ngram;
pub mod sizes;
pub mod tokenizer;

pub use checkpoint::{
    Attention, Checkpoint, ExpertStacks, Gdn, HcRead, HyperConnection, Layer, Mixer, Moe, Mtp, Ple,
    Tensor,
};
pub use draft_vocab::{DraftVocab, DraftVocabError};
pub use error::{Error, Problem, TensorFault, TensorFaults};
pub use hparams::{
    AttnParams, GdnParams, HcParams, HyperParams, IndexerParams, LayerKind, MoeParams, PleParams,
    SamplingDefaults,
};
pub use ngram_constants::{HashConstants, HashSeed};
pub use role::{Accepts, Part, Purpose, Role, Shape};
