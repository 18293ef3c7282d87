//! What can go wrong when a model is run.

use crate::memory::Shortfall;
use crate::sampling::SamplingError;

/// An error of the engine; each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A weight could not be loaded or a device failed.
    #[error(transparent)]
    Kernel(#[from] kernels::Error),
    /// Weights cannot be read from where they are stored.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// A file of the model cannot be used.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// A tensor that was to be read from its file is in none.
    #[error("tensor {name} is not in the model's files; load the model into memory")]
    NotInFile {
        /// Tensor name.
        name: String,
    },
    /// A sampling setting or the logits are unusable.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A small weight holds NaN or an infinity.
    #[error(
        "tensor {name}: value {index} is not a finite number; the file is damaged, fetch it again"
    )]
    NonFiniteWeight {
        /// Tensor name.
        name: String,
        /// Index of the first such value.
        index: usize,
    },
    /// The slot does not exist.
    #[error("slot {slot} does not exist: the engine has {slots}")]
    NoSlot {
        /// Slot asked for.
        slot: usize,
        /// Number of slots.
        slots: usize,
    },
    /// A slot appears twice in one window.
    #[error("slot {slot} appears twice in one window; join its tokens into one feed")]
    SlotTwice {
        /// The slot.
        slot: usize,
    },
    /// No tokens were given.
    #[error("no tokens to run; the text must encode to at least one")]
    NoTokens,
    /// A token id is outside the vocabulary.
    #[error("token id {token} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The id.
        token: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// More rows than a window holds.
    #[error("{rows} tokens in one window, the engine was made for {limit}")]
    WindowTooLong {
        /// Rows asked for.
        rows: usize,
        /// Rows that fit.
        limit: usize,
    },
    /// The sequence would outgrow the context.
    #[error(
        "the sequence would reach {tokens} tokens, the context holds {context}; shorten the text or raise --ctx"
    )]
    ContextFull {
        /// Tokens that the sequence would have.
        tokens: usize,
        /// Tokens that a slot holds.
        context: usize,
    },
    /// A device fault left the slot's state unusable.
    #[error("slot {slot} was interrupted by a device fault; reset it before use")]
    SlotBroken {
        /// The slot.
        slot: usize,
    },
    /// A slot has tokens on trial that nothing was decided about.
    #[error("slot {slot} has tokens on trial; decide about them before it goes on")]
    Undecided {
        /// The slot.
        slot: usize,
    },
    /// More tokens were accepted than were on trial.
    #[error("slot {slot} has {on_trial} tokens on trial, {count} cannot be accepted")]
    BadDecision {
        /// The slot.
        slot: usize,
        /// Tokens accepted.
        count: usize,
        /// Tokens on trial.
        on_trial: usize,
    },
    /// A deferred feed is longer than slots have room for.
    #[error("{rows} tokens in a deferred feed, the engine was made for {limit}")]
    TooManyDeferred {
        /// Tokens in the feed.
        rows: usize,
        /// Tokens that fit.
        limit: usize,
    },
    /// The engine has no drafting block.
    #[error("no drafting block is loaded; the model has none, or the engine was made without")]
    NoMtp,
    /// A saved state belongs to another model.
    #[error(
        "the saved state was made with another model, device or drafting block; compute its text anew"
    )]
    ForeignState,
    /// A slot has no such piece.
    #[error("piece {index} was asked for, the sequence has {pieces} whole ones")]
    NoSuchPiece {
        /// Number of the piece.
        index: usize,
        /// Whole pieces of the sequence.
        pieces: usize,
    },
    /// Pieces of a saved state that do not belong together.
    #[error(
        "{found} pieces were given for a state that needs {want}, and number {index} does not belong \
             there; compute its text anew"
    )]
    WrongPieces {
        /// The first that is wrong or missing.
        index: usize,
        /// Pieces given.
        found: usize,
        /// Pieces before the snapshot.
        want: usize,
    },
    /// The drafting block has seen nothing of the slot.
    #[error("slot {slot} has nothing to draft from; feed it, and decide about what is on trial")]
    NothingToDraftFrom {
        /// The slot.
        slot: usize,
    },
    /// More draft steps than a round may have.
    #[error("slot {slot} has {limit} drafts already; run and decide about them before more")]
    ChainTooLong {
        /// The slot.
        slot: usize,
        /// Most drafts of a round.
        limit: usize,
    },
    /// The context is longer than the model reaches.
    #[error(
        "a context of {context} tokens is beyond the {limit} that the model reaches; lower --ctx, or \
         stretch it with --rope-scaling yarn --rope-scale {scale}"
    )]
    ContextTooLong {
        /// Tokens asked for.
        context: usize,
        /// Tokens that the model reaches with its scaling.
        limit: usize,
        /// A scale that would do.
        scale: usize,
    },
    /// The context is longer than memory can hold.
    #[error(
        "a context of {context} tokens takes {bytes} bytes for {slots} sequences, and there is memory \
         for {fits} tokens; lower --ctx, or keep keys and values in fewer bits with --kv"
    )]
    ContextMemory {
        /// Tokens asked for.
        context: usize,
        /// Sequences at once.
        slots: usize,
        /// Bytes of all caches when they are full.
        bytes: u64,
        /// Tokens of context that memory has room for.
        fits: u64,
    },
    /// What any token needs is more than may be taken of memory.
    #[error("{0}")]
    MemoryLimit(Box<Shortfall>),
    /// A setting of the engine makes no sense.
    #[error("{what}: {value} is not usable, {rule}")]
    BadSetting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What is allowed.
        rule: &'static str,
    },
}
