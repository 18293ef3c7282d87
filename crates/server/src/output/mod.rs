//! What comes out of a request, told apart from how any client wants it written.
//!
//! [`Output`] is the stream of events that every wire format is written from, streamed or not.
//! [`Reader`] makes it of an engine's text; [`calls`] and [`kinds`] read tool calls.

mod arguments;
pub mod calls;
pub mod kinds;
mod reader;
mod whole;

pub use reader::{Reader, ReaderSettings};
pub use whole::{Call, Part, Whole};

use crate::ApiError;

/// An event of one of a request's answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// More of the answer. Never holds thinking or its tags.
    Text {
        /// The text; may be empty where there are only tokens to tell.
        text: String,
        /// The tokens that it is made of, if they were asked for.
        tokens: Vec<TokenOutput>,
    },
    /// More of the thinking before an answer.
    Reasoning(String),
    /// A tool call begins.
    CallBegin {
        /// Its number in the answer, from 0.
        index: usize,
        /// Its name for whoever answers it.
        id: String,
        /// The function.
        name: String,
    },
    /// The next part of a call's arguments; all parts together are a JSON object.
    CallArguments {
        /// The number of the call.
        index: usize,
        /// The part.
        fragment: String,
    },
    /// The call is complete.
    CallEnd {
        /// Its number.
        index: usize,
    },
    /// The answer is complete; its last event.
    Finish {
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
    /// The answer failed; its last event.
    Failed(ApiError),
}

/// A token of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenOutput {
    /// The token and how likely it was.
    pub token: TokenProb,
    /// The likeliest tokens in its place, falling.
    pub top: Vec<TokenProb>,
}

/// A token with its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenProb {
    /// The bytes that it stands for.
    pub bytes: Vec<u8>,
    /// Always finite: what the model rules out is [`IMPOSSIBLE`].
    pub log_prob: f32,
}

/// The log-probability of what cannot be.
pub const IMPOSSIBLE: f32 = -9999.0;

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    Stop,
    /// A stop string came.
    StopString(String),
    /// It is as long as it may be.
    Length,
    /// The model waits for the results of tool calls.
    ToolCalls,
    /// The model went round in a circle.
    Repetition,
}

/// What an answer took, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: usize,
    /// Of those, which were there already.
    pub cached: usize,
    /// Generated, the one that ended the answer included.
    pub completion: usize,
    /// Of those, which were thinking.
    pub reasoning: usize,
}

impl Usage {
    /// Adds another answer to the same prompt.
    pub fn add(&mut self, other: &Usage) {
        self.prompt = self.prompt.max(other.prompt);
        self.cached = self.cached.max(other.cached);
        self.completion += other.completion;
        self.reasoning += other.reasoning;
    }
}
