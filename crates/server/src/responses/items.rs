//! The items of a response, at any stage of being written.

use crate::output::{Call, FinishReason, Part, Usage, Whole};
use serde_json::{Value, json};

/// An item and what is in it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Reasoning(String),
    Message(String),
    Call(Call),
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Complete,
    CutOff,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Running => "in_progress",
            Stage::Complete => "completed",
            Stage::CutOff => "incomplete",
        }
    }

    /// Of what is being written when an answer ends.
    pub(super) fn at_end(finish: Option<&FinishReason>) -> Stage {
        match finish {
            None | Some(FinishReason::Length | FinishReason::Repetition) => Stage::CutOff,
            Some(_) => Stage::Complete,
        }
    }
}

impl Item {
    /// The item's name; `id` is that of the answer.
    pub(super) fn id(&self, id: &str, number: usize) -> String {
        let prefix = match self {
            Item::Reasoning(_) => "rs",
            Item::Message(_) => "msg",
            Item::Call(_) => "fc",
        };
        format!("{prefix}_{id}{number}")
    }

    /// The one part of an item's content; calls have none.
    pub(super) fn part(&self) -> Option<Value> {
        match self {
            Item::Reasoning(text) => Some(json!({"type": "reasoning_text", "text": text})),
            Item::Message(text) => Some(json!({
                "type": "output_text", "text": text, "annotations": [], "logprobs": [],
            })),
            Item::Call(_) => None,
        }
    }

    /// As it stands in a response. An item that has only begun has no part yet.
    pub(super) fn json(&self, id: &str, stage: Stage) -> Value {
        let content: Vec<Value> = self.part().into_iter().collect();
        let content = if stage == Stage::Running { Vec::new() } else { content };
        let status = stage.name();
        match self {
            Item::Reasoning(_) => json!({
                "id": id, "type": "reasoning", "status": status, "summary": [], "content": content,
            }),
            Item::Message(_) => json!({
                "id": id, "type": "message", "role": "assistant", "status": status,
                "content": content,
            }),
            Item::Call(call) => json!({
                "id": id, "type": "function_call", "status": status, "call_id": call.id,
                "name": call.name, "arguments": call.arguments,
            }),
        }
    }
}

/// The items of a whole answer.
pub(super) fn all(answer: &Whole, id: &str) -> Vec<Value> {
    let last = answer.parts.len().saturating_sub(1);
    let item = |(number, part): (usize, &Part)| {
        let item = match part {
            Part::Reasoning(range) => {
                Item::Reasoning(answer.reasoning.get(range.clone())?.to_owned())
            }
            Part::Text(range) => Item::Message(answer.text.get(range.clone())?.to_owned()),
            Part::Call(call) => Item::Call(answer.calls.get(*call)?.clone()),
        };
        let stage = match &item {
            _ if number < last => Stage::Complete,
            // The answer may have been cut off behind it.
            Item::Call(call) if call.is_complete => Stage::Complete,
            _ => Stage::at_end(answer.finish.as_ref()),
        };
        Some(item.json(&item.id(id, number), stage))
    };
    answer.parts.iter().enumerate().filter_map(item).collect()
}

/// What an answer took.
pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    })
}
