//! An answer as a whole, put together from its events.

use super::{FinishReason, Output, TokenOutput, Usage};
use crate::ApiError;

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
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// What it took.
    pub usage: Usage,
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
}

impl Whole {
    /// Takes the next event.
    ///
    /// # Errors
    /// If the answer failed.
    pub fn take(&mut self, output: Output) -> Result<(), ApiError> {
        match output {
            Output::Text { text, tokens } => {
                self.text.push_str(&text);
                self.tokens.extend(tokens);
            }
            Output::Reasoning(text) => self.reasoning.push_str(&text),
            Output::CallBegin { id, name, .. } => {
                self.calls.push(Call { id, name, arguments: String::new() });
            }
            Output::CallArguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&fragment);
                }
            }
            Output::CallEnd { .. } => {}
            Output::Finish { reason, usage } => {
                self.finish = Some(reason);
                self.usage = usage;
            }
            Output::Failed(error) => return Err(error),
        }
        Ok(())
    }
}
