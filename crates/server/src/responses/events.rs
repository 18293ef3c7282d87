//! `/v1/responses`: the answer, as events and as a whole.

use super::items::{self, Item, Stage};
use crate::ApiError;
use crate::output::{Call, FinishReason, Output, Usage, Whole};
use crate::wire::{Frames, Wire};
use serde_json::{Value, json};

/// Writes a response.
#[derive(Debug)]
pub(super) struct Reply {
    /// Unique to the answer; ids are made of it.
    id: String,
    /// What the response object has of the request.
    head: Value,
    /// The number of the next event.
    sequence: u64,
    /// Items that are complete.
    done: Vec<Value>,
    /// The item that is being written, and its id.
    open: Option<(Item, String)>,
    end: Option<(FinishReason, Usage)>,
}

impl Reply {
    pub(super) fn new(id: &str, head: Value) -> Self {
        let id = id.to_owned();
        Self { id, head, sequence: 0, done: Vec::new(), open: None, end: None }
    }

    /// The response object. `end` is why the answer ended and what it took, if it has.
    fn response(&self, output: Vec<Value>, end: Option<(&FinishReason, &Usage)>) -> Value {
        let cut_off = match end {
            Some((FinishReason::Length, _)) => Some("max_output_tokens"),
            Some((FinishReason::Repetition, _)) => Some("repetition"),
            _ => None,
        };
        let status = match (end, cut_off) {
            (None, _) => "in_progress",
            (Some(_), None) => "completed",
            (Some(_), Some(_)) => "incomplete",
        };
        let mut response = self.head.clone();
        response["id"] = format!("resp_{}", self.id).into();
        response["status"] = status.into();
        response["error"] = Value::Null;
        response["incomplete_details"] = cut_off.map(|reason| json!({"reason": reason})).into();
        response["output"] = output.into();
        response["usage"] = end.map(|(_, usage)| items::usage(usage)).into();
        response
    }

    fn send(&mut self, kind: &str, mut event: Value, frames: &mut Frames) {
        event["type"] = kind.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        frames.named(&event);
    }

    /// Begins an item.
    fn begin_item(&mut self, item: Item, frames: &mut Frames) {
        self.end_item(Stage::Complete, frames);
        let number = self.done.len();
        let id = item.id(&self.id, number);
        let event = json!({"output_index": number, "item": item.json(&id, Stage::Running)});
        self.send("response.output_item.added", event, frames);
        if let Some(part) = item.part() {
            let event = json!({
                "item_id": id, "output_index": number, "content_index": 0, "part": part,
            });
            self.send("response.content_part.added", event, frames);
        }
        self.open = Some((item, id));
    }

    /// Ends the item that is being written.
    fn end_item(&mut self, stage: Stage, frames: &mut Frames) {
        let Some((item, id)) = self.open.take() else { return };
        let number = self.done.len();
        let place = json!({"item_id": id, "output_index": number});
        let mut event = place.clone();
        let kind = match &item {
            Item::Call(call) => {
                event["name"] = call.name.as_str().into();
                event["arguments"] = call.arguments.as_str().into();
                "response.function_call_arguments.done"
            }
            Item::Reasoning(text) => {
                event["content_index"] = 0.into();
                event["text"] = text.as_str().into();
                "response.reasoning_text.done"
            }
            Item::Message(text) => {
                event["content_index"] = 0.into();
                event["text"] = text.as_str().into();
                event["logprobs"] = json!([]);
                "response.output_text.done"
            }
        };
        self.send(kind, event, frames);
        if let Some(part) = item.part() {
            let mut event = place;
            event["content_index"] = 0.into();
            event["part"] = part;
            self.send("response.content_part.done", event, frames);
        }
        let item = item.json(&id, stage);
        let event = json!({"output_index": number, "item": item});
        self.send("response.output_item.done", event, frames);
        self.done.push(item);
    }

    /// Adds text to the item that is being written.
    fn add(&mut self, more: &str, frames: &mut Frames) {
        let Some((item, id)) = &mut self.open else { return };
        let mut event = json!({"item_id": id, "output_index": self.done.len(), "delta": more});
        let kind = match item {
            Item::Call(call) => {
                call.arguments.push_str(more);
                "response.function_call_arguments.delta"
            }
            Item::Reasoning(text) => {
                text.push_str(more);
                event["content_index"] = 0.into();
                "response.reasoning_text.delta"
            }
            Item::Message(text) => {
                text.push_str(more);
                event["content_index"] = 0.into();
                event["logprobs"] = json!([]);
                "response.output_text.delta"
            }
        };
        self.send(kind, event, frames);
    }
}

impl Wire for Reply {
    fn whole(&self, answers: Vec<Whole>) -> Value {
        let answer = answers.into_iter().next().unwrap_or_default();
        let end = answer.finish.as_ref().map(|finish| (finish, &answer.usage));
        self.response(items::all(&answer, &self.id), end)
    }

    fn begin(&mut self, _: usize, frames: &mut Frames) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response(Vec::new(), None);
            self.send(kind, json!({"response": response}), frames);
        }
    }

    fn event(&mut self, _: usize, output: Output, frames: &mut Frames) {
        match output {
            Output::Text { text, .. } if !text.is_empty() => {
                if !matches!(self.open, Some((Item::Message(_), _))) {
                    self.begin_item(Item::Message(String::new()), frames);
                }
                self.add(&text, frames);
            }
            Output::Reasoning(text) => {
                if !matches!(self.open, Some((Item::Reasoning(_), _))) {
                    self.begin_item(Item::Reasoning(String::new()), frames);
                }
                self.add(&text, frames);
            }
            Output::CallBegin { id, name, .. } => {
                self.begin_item(Item::Call(Call { id, name, ..Call::default() }), frames);
            }
            Output::CallArguments { fragment, .. } => self.add(&fragment, frames),
            Output::CallEnd { .. } => self.end_item(Stage::Complete, frames),
            Output::Finish { reason, usage } => {
                self.end_item(Stage::at_end(Some(&reason)), frames);
                self.end = Some((reason, usage));
            }
            Output::Text { .. } | Output::Failed(_) => {}
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        let end = self.end.take();
        let end = end.as_ref().map(|(reason, usage)| (reason, usage));
        let done = std::mem::take(&mut self.done);
        let response = self.response(done, end);
        let kind = format!("response.{}", response["status"].as_str().unwrap_or_default());
        self.send(&kind, json!({"response": response}), frames);
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        let done = std::mem::take(&mut self.done);
        let mut response = self.response(done, None);
        response["status"] = "failed".into();
        // The only word that the format has for it.
        response["error"] = json!({"code": "server_error", "message": error.message});
        self.send("response.failed", json!({"response": response}), frames);
    }
}
