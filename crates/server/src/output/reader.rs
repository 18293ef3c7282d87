//! From an engine's text to events: thinking first, then tool calls, then what is left.

use super::calls::{CallReader, Calling, Functions, Piece};
use super::{FinishReason, IMPOSSIBLE, Output, TokenOutput, TokenProb, Usage};
use engine::batch::JobSummary;
use engine::{Finish, TokenLogProbs};
use model::chat::{Split, Thinking, ThinkingSplitter};
use model::tokenizer::Tokenizer;
use std::sync::Arc;

/// How the text of an answer is read.
#[derive(Clone, Debug)]
pub struct ReaderSettings {
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Whether the prompt ends inside thinking; `None` if text is not split at all.
    pub thinking: Option<Thinking>,
    /// Functions that may be called; `None` if calls are text.
    pub functions: Option<Arc<Functions>>,
    /// Whether one is called for sure.
    pub calling: Calling,
    /// Whether the answer ends with its first call.
    pub one_call: bool,
    /// What the names of calls begin with; unique to the answer.
    pub call_prefix: String,
    /// Whether tokens are told with the text.
    pub tell_tokens: bool,
    /// Text that comes first, as if it had been generated: the prompt of a completion with `echo`.
    pub echo: String,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Reader {
    settings: ReaderSettings,
    splitter: Option<ThinkingSplitter>,
    calls: Option<CallReader>,
    /// Calls that have begun and ended.
    begun: usize,
    ended: usize,
    reasoning_tokens: usize,
    /// Tokens whose text is not out yet.
    tokens: Vec<TokenOutput>,
}

impl Reader {
    /// For an answer that has not begun.
    pub fn new(settings: ReaderSettings) -> Self {
        Self {
            splitter: settings.thinking.map(ThinkingSplitter::new),
            calls: settings.functions.clone().map(|it| CallReader::new(it, settings.calling)),
            settings,
            begun: 0,
            ended: 0,
            reasoning_tokens: 0,
            tokens: Vec::new(),
        }
    }

    /// What comes before anything is generated.
    pub fn begin(&mut self, out: &mut Vec<Output>) {
        let text = std::mem::take(&mut self.settings.echo);
        if !text.is_empty() {
            out.push(Output::Text { text, tokens: Vec::new() });
        }
    }

    /// Takes a token, whose text follows.
    pub fn token(&mut self, id: u32, log_probs: Option<&TokenLogProbs>) {
        let thinking = self.splitter.as_ref().map(ThinkingSplitter::state);
        self.reasoning_tokens += usize::from(thinking == Some(Thinking::Open));
        if let Some(found) = log_probs.filter(|_| self.settings.tell_tokens) {
            let token = self.prob(id, found.drawn);
            let top = found.top.iter().map(|&(id, log_prob)| self.prob(id, log_prob)).collect();
            self.tokens.push(TokenOutput { token, top });
        }
    }

    fn prob(&self, id: u32, log_prob: f32) -> TokenProb {
        let bytes = self.settings.tokenizer.token_bytes(id).unwrap_or_default().to_vec();
        let log_prob = if log_prob.is_finite() { log_prob.max(IMPOSSIBLE) } else { IMPOSSIBLE };
        TokenProb { bytes, log_prob }
    }

    /// Takes the next piece of text.
    pub fn text(&mut self, text: &str, out: &mut Vec<Output>) {
        // Tags end with this sign, so each piece is thinking or answer and never both, and their
        // order is kept.
        for piece in text.split_inclusive('>') {
            let split = match &mut self.splitter {
                Some(splitter) => splitter.push(piece),
                None => Split { reasoning: String::new(), content: piece.to_owned() },
            };
            self.split(split, out);
        }
        let held = self.splitter.as_ref().map_or(0, ThinkingSplitter::pending)
            + self.calls.as_ref().map_or(0, CallReader::pending);
        if held == 0 {
            // Their text was thinking, a call, or part of the format.
            self.tokens.clear();
        }
    }

    /// Whether the answer is to end here, whatever the model would say next.
    pub fn is_complete(&self) -> bool {
        self.settings.one_call && self.ended > 0
    }

    /// Ends the answer.
    pub fn finish(&mut self, summary: &JobSummary, out: &mut Vec<Output>) {
        if !self.is_complete() {
            let split = self.splitter.as_mut().map(ThinkingSplitter::finish);
            self.split(split.unwrap_or_default(), out);
            if let Some(calls) = &mut self.calls {
                let pieces = calls.finish();
                self.pieces(pieces, out);
            }
        }
        let usage = Usage {
            prompt: self.settings.prompt_tokens,
            cached: summary.reused,
            completion: summary.tokens.len(),
            reasoning: self.reasoning_tokens,
        };
        out.push(Output::Finish { reason: self.reason(&summary.finish), usage });
    }

    fn reason(&self, finish: &Finish) -> FinishReason {
        match finish {
            Finish::Length | Finish::ContextFull => FinishReason::Length,
            Finish::Repetition => FinishReason::Repetition,
            _ if self.ended > 0 => FinishReason::ToolCalls,
            Finish::StopString(stop) => FinishReason::StopString(stop.clone()),
            Finish::EndOfText(_) | Finish::Complete | Finish::Cancelled => FinishReason::Stop,
        }
    }

    fn split(&mut self, split: Split, out: &mut Vec<Output>) {
        if !split.reasoning.is_empty() {
            out.push(Output::Reasoning(split.reasoning));
            self.tokens.clear();
        }
        if split.content.is_empty() {
            return;
        }
        match &mut self.calls {
            Some(calls) => {
                let pieces = calls.push(&split.content);
                self.pieces(pieces, out);
            }
            None => self.content(split.content, out),
        }
    }

    fn content(&mut self, text: String, out: &mut Vec<Output>) {
        out.push(Output::Text { text, tokens: std::mem::take(&mut self.tokens) });
    }

    fn pieces(&mut self, pieces: Vec<Piece>, out: &mut Vec<Output>) {
        for piece in pieces {
            if self.is_complete() {
                return;
            }
            let index = self.begun.saturating_sub(1);
            match piece {
                Piece::Text(text) => self.content(text, out),
                Piece::Begin(name) => {
                    let (index, id) =
                        (self.begun, format!("{}{}", self.settings.call_prefix, self.begun));
                    self.begun += 1;
                    out.push(Output::CallBegin { index, id, name });
                }
                Piece::Arguments(fragment) => out.push(Output::CallArguments { index, fragment }),
                Piece::End => {
                    self.ended += 1;
                    out.push(Output::CallEnd { index });
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
