//! `/v1/messages`: the answer.

use super::request::Thoughts;
use crate::ApiError;
use crate::output::{Call, FinishReason, Output, Part, Usage, Whole};
use crate::wire::{Frames, Wire};
use serde_json::{Map, Value, json};

/// What thinking is signed with. Nobody checks it, but clients throw away thoughts without one.
const SIGNATURE: &str = "unsigned";

/// Writes an answer.
#[derive(Debug)]
pub(super) struct Reply {
    id: String,
    model: String,
    thoughts: Thoughts,
    /// The block that is being written.
    open: Option<Block>,
    /// Blocks that are complete.
    blocks: usize,
}

/// A block of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

impl Reply {
    pub(super) fn new(id: &str, model: &str, thoughts: Thoughts) -> Self {
        let (id, model) = (format!("msg_{id}"), model.to_owned());
        Self { id, model, thoughts, open: None, blocks: 0 }
    }

    fn message(&self, content: &[Value], finish: Option<&FinishReason>, usage: &Usage) -> Value {
        let (reason, sequence) = stop(finish);
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            "usage": usage_json(usage),
        })
    }

    /// Opens a block, unless one of its kind is open, to which text is added.
    fn enter(&mut self, block: Block, start: &Value, frames: &mut Frames) {
        if self.open == Some(block) && block != Block::Call {
            return;
        }
        self.close(frames);
        self.open = Some(block);
        frames.named(&json!({
            "type": "content_block_start", "index": self.blocks, "content_block": start,
        }));
    }

    fn delta(&self, delta: &Value, frames: &mut Frames) {
        frames.named(&json!({"type": "content_block_delta", "index": self.blocks, "delta": delta}));
    }

    fn close(&mut self, frames: &mut Frames) {
        let Some(block) = self.open.take() else { return };
        if block == Block::Thinking {
            self.delta(&json!({"type": "signature_delta", "signature": SIGNATURE}), frames);
        }
        frames.named(&json!({"type": "content_block_stop", "index": self.blocks}));
        self.blocks += 1;
    }

    fn block(&self, answer: &Whole, part: &Part) -> Option<Value> {
        Some(match part {
            Part::Text(range) => text(answer.text.get(range.clone())?),
            Part::Reasoning(range) => {
                let shown = match self.thoughts {
                    Thoughts::Shown => answer.reasoning.get(range.clone())?,
                    Thoughts::Omitted => "",
                };
                thinking(shown, SIGNATURE)
            }
            Part::Call(number) => {
                let Call { id, name, arguments, .. } = answer.calls.get(*number)?;
                call(id, name, &whole_members(arguments))
            }
        })
    }
}

impl Wire for Reply {
    fn whole(&self, answers: Vec<Whole>) -> Value {
        let answer = answers.into_iter().next().unwrap_or_default();
        let blocks = answer.parts.iter().filter_map(|part| self.block(&answer, part));
        let blocks: Vec<Value> = blocks.collect();
        self.message(&blocks, answer.finish.as_ref(), &answer.usage)
    }

    fn begin(&mut self, prompt_tokens: usize, frames: &mut Frames) {
        // How many of them were there already shows later; the last event has it.
        let usage = Usage { prompt: prompt_tokens, ..Usage::default() };
        let message = self.message(&[], None, &usage);
        frames.named(&json!({"type": "message_start", "message": message}));
    }

    fn event(&mut self, _: usize, output: Output, frames: &mut Frames) {
        match output {
            Output::Text { text: more, .. } if !more.is_empty() => {
                self.enter(Block::Text, &text(""), frames);
                self.delta(&json!({"type": "text_delta", "text": more}), frames);
            }
            Output::Reasoning(more) => {
                self.enter(Block::Thinking, &thinking("", ""), frames);
                if self.thoughts == Thoughts::Shown {
                    self.delta(&json!({"type": "thinking_delta", "thinking": more}), frames);
                }
            }
            Output::CallBegin { id, name, .. } => {
                self.enter(Block::Call, &call(&id, &name, &json!({})), frames);
            }
            Output::CallArguments { fragment, .. } => {
                self.delta(&json!({"type": "input_json_delta", "partial_json": fragment}), frames);
            }
            Output::CallEnd { .. } => self.close(frames),
            Output::Finish { reason, usage } => {
                self.close(frames);
                let (reason, sequence) = stop(Some(&reason));
                frames.named(&json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": sequence},
                    "usage": usage_json(&usage),
                }));
            }
            Output::Text { .. } | Output::Failed(_) => {}
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        frames.named(&json!({"type": "message_stop"}));
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.named(&super::error(error));
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// Why an answer ended, and at which stop sequence.
fn stop(finish: Option<&FinishReason>) -> (Option<&'static str>, Option<&str>) {
    let reason = match finish {
        None => return (None, None),
        Some(FinishReason::StopString(stop)) => return (Some("stop_sequence"), Some(stop)),
        Some(FinishReason::Stop) => "end_turn",
        Some(FinishReason::Length) => "max_tokens",
        Some(FinishReason::ToolCalls) => "tool_use",
        Some(FinishReason::Repetition) => "repetition",
    };
    (Some(reason), None)
}

/// What an answer took. Tokens that were there already are not part of `input_tokens` here.
fn usage_json(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}

/// The arguments of a call as an object; of those that were cut off, the members that are complete.
fn whole_members(arguments: &str) -> Value {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    if let Some(found) = object(arguments).or_else(|| object(&format!("{arguments}}}"))) {
        return found.into();
    }
    let complete = last_comma(arguments).and_then(|at| arguments.get(..at));
    complete.and_then(|text| object(&format!("{text}}}"))).unwrap_or_default().into()
}

/// Where the last comma between members of the outermost object is.
fn last_comma(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped, mut found) = (0usize, false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => found = Some(at),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_were_cut_off_keep_their_whole_members() {
        for (arguments, expected) in [
            ("", json!({})),
            ("{", json!({})),
            ("{}", json!({})),
            ("{\"a", json!({})),
            ("{\"a\": \"x, y", json!({})),
            ("{\"a\": \"x\"", json!({"a": "x"})),
            ("{\"a\": \"x\", \"b\": \"y, z", json!({"a": "x"})),
            ("{\"a\": [1, 2], \"b\": [1, 2", json!({"a": [1, 2]})),
            ("{\"a\": {\"b\": 1, \"c\": 2}}", json!({"a": {"b": 1, "c": 2}})),
        ] {
            assert_eq!(whole_members(arguments), expected, "{arguments}");
        }
    }
}
