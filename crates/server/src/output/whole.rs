//! An answer as a whole, put together from its events.

use super::{FinishReason, Output, TokenOutput, Usage};
use crate::ApiError;
use std::ops::Range;

/// An answer without streaming: exactly what its events say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// The answer's text.
    pub text: String,
    /// Its tokens, if they were asked for.
    pub tokens: Vec<TokenOutput>,
    /// The thinking before it.
    pub reasoning: String,
    /// Tool calls.
    pub calls: Vec<Call>,
    /// In which order they came.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// What it took.
    pub usage: Usage,
}

/// A stretch of an answer, as bytes of the texts or the number of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of [`Whole::reasoning`].
    Reasoning(Range<usize>),
    /// Of [`Whole::text`].
    Text(Range<usize>),
    /// Of [`Whole::calls`].
    Call(usize),
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its name for whoever answers it.
    pub id: String,
    /// The function.
    pub name: String,
    /// JSON; cut off if the answer was too long.
    pub arguments: String,
    /// Whether all of it is there.
    pub is_complete: bool,
}

impl Whole {
    /// Takes the next event.
    ///
    /// # Errors
    /// If the answer failed.
    pub fn take(&mut self, output: Output) -> Result<(), ApiError> {
        match output {
            Output::Text { text, tokens } => {
                let start = self.text.len();
                self.text.push_str(&text);
                self.tokens.extend(tokens);
                let end = self.text.len();
                match self.parts.last_mut() {
                    Some(Part::Text(range)) => range.end = end,
                    _ if text.is_empty() => {}
                    _ => self.parts.push(Part::Text(start..end)),
                }
            }
            Output::Reasoning(text) => {
                let start = self.reasoning.len();
                self.reasoning.push_str(&text);
                let end = self.reasoning.len();
                match self.parts.last_mut() {
                    Some(Part::Reasoning(range)) => range.end = end,
                    _ => self.parts.push(Part::Reasoning(start..end)),
                }
            }
            Output::CallBegin { id, name, .. } => {
                self.parts.push(Part::Call(self.calls.len()));
                self.calls.push(Call { id, name, ..Call::default() });
            }
            Output::CallArguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&fragment);
                }
            }
            Output::CallEnd { index } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.is_complete = true;
                }
            }
            Output::Finish { reason, usage } => {
                self.finish = Some(reason);
                self.usage = usage;
            }
            Output::Failed(error) => return Err(error),
        }
        Ok(())
    }
}
