//! `/v1/chat/completions`: the answers.

use super::Head;
use super::common::{self, finish_reason};
use crate::ApiError;
use crate::output::{Output, TokenOutput, TokenProb, Usage, Whole};
use crate::request::Generate;
use crate::wire::{Frames, Wire};
use serde_json::{Value, json};

const CHUNK: &str = "chat.completion.chunk";

/// Writes answers.
#[derive(Debug)]
pub(super) struct Reply {
    head: Head,
    /// Whether a stream ends with what it took.
    tell_usage: bool,
    /// Whether tokens are told.
    tell_tokens: bool,
    choices: usize,
    usage: Usage,
}

impl Reply {
    pub(super) fn new(head: Head, tell_usage: bool, request: &Generate) -> Self {
        let (choices, tell_tokens) = (request.choices, request.log_probs.is_some());
        Self { head, tell_usage, tell_tokens, choices, usage: Usage::default() }
    }

    fn chunk(&self, choice: usize, delta: &Value) -> Value {
        let choice = json!({"index": choice, "delta": delta, "finish_reason": null});
        self.head.event(CHUNK, choice, self.tell_usage)
    }

    fn choice(&self, index: usize, answer: Whole) -> Value {
        let content = match (answer.text.is_empty(), answer.calls.is_empty()) {
            (true, false) => Value::Null,
            _ => answer.text.into(),
        };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !answer.reasoning.is_empty() {
            message["reasoning_content"] = answer.reasoning.into();
        }
        if !answer.calls.is_empty() {
            let call = |call: crate::output::Call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            };
            message["tool_calls"] = answer.calls.into_iter().map(call).collect();
        }
        let log_probs = self.tell_tokens.then(|| log_probs(&answer.tokens));
        json!({
            "index": index,
            "message": message,
            "logprobs": log_probs,
            "finish_reason": answer.finish.as_ref().map(finish_reason),
        })
    }
}

impl Wire for Reply {
    fn whole(&self, answers: Vec<Whole>) -> Value {
        let mut usage = Usage::default();
        answers.iter().for_each(|answer| usage.add(&answer.usage));
        let choices = answers.into_iter().enumerate();
        let choices = choices.map(|(index, answer)| self.choice(index, answer)).collect::<Vec<_>>();
        let mut value = self.head.json("chat.completion", &choices);
        value["usage"] = usage_json(&usage);
        value
    }

    fn begin(&mut self, _: usize, frames: &mut Frames) {
        for choice in 0..self.choices {
            frames.data(&self.chunk(choice, &json!({"role": "assistant", "content": ""})));
        }
    }

    fn event(&mut self, choice: usize, output: Output, frames: &mut Frames) {
        let delta = match output {
            Output::Text { text, tokens } => {
                let mut chunk = self.chunk(choice, &json!({"content": text}));
                if self.tell_tokens {
                    chunk["choices"][0]["logprobs"] = log_probs(&tokens);
                }
                return frames.data(&chunk);
            }
            Output::Reasoning(text) => json!({"reasoning_content": text}),
            Output::CallBegin { index, id, name } => {
                let function = json!({"name": name, "arguments": ""});
                json!({"tool_calls": [
                    {"index": index, "id": id, "type": "function", "function": function},
                ]})
            }
            Output::CallArguments { index, fragment } => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})
            }
            Output::CallEnd { .. } | Output::Failed(_) => return,
            Output::Finish { reason, usage } => {
                self.usage.add(&usage);
                let mut chunk = self.chunk(choice, &json!({}));
                chunk["choices"][0]["finish_reason"] = finish_reason(&reason).into();
                return frames.data(&chunk);
            }
        };
        frames.data(&self.chunk(choice, &delta));
    }

    fn end(&mut self, frames: &mut Frames) {
        if self.tell_usage {
            let mut chunk = self.head.json(CHUNK, &[]);
            chunk["usage"] = usage_json(&self.usage);
            frames.data(&chunk);
        }
        frames.word("[DONE]");
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.data(&common::error(error));
    }
}

/// What answers took.
pub(super) fn usage_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn log_probs(tokens: &[TokenOutput]) -> Value {
    let content: Vec<Value> = tokens
        .iter()
        .map(|TokenOutput { token, top }| {
            let mut entry = prob(token);
            entry["top_logprobs"] = top.iter().map(prob).collect();
            entry
        })
        .collect();
    json!({"content": content, "refusal": null})
}

fn prob(TokenProb { bytes, log_prob }: &TokenProb) -> Value {
    let text = String::from_utf8_lossy(bytes);
    json!({"token": text, "logprob": log_prob, "bytes": bytes})
}
