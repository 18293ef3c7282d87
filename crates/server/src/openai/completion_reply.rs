//! `/v1/completions`: the answers.

use super::Head;
use super::chat_reply::usage_json;
use super::common::{self, finish_reason};
use crate::ApiError;
use crate::output::{Output, TokenOutput, TokenProb, Usage, Whole};
use crate::request::Generate;
use crate::wire::{Frames, Wire};
use serde_json::{Map, Value, json};

const OBJECT: &str = "text_completion";

/// Writes answers.
#[derive(Debug)]
pub(super) struct Reply {
    head: Head,
    tell_usage: bool,
    tell_tokens: bool,
    usage: Usage,
    /// Characters of the tokens told so far, by answer.
    offsets: Vec<usize>,
}

impl Reply {
    pub(super) fn new(head: Head, tell_usage: bool, request: &Generate) -> Self {
        let tell_tokens = request.log_probs.is_some();
        let offsets = vec![0; request.choices];
        Self { head, tell_usage, tell_tokens, usage: Usage::default(), offsets }
    }

    fn choice(&self, index: usize, text: &str, tokens: (&[TokenOutput], usize)) -> Value {
        let log_probs = self.tell_tokens.then(|| log_probs(tokens));
        json!({"index": index, "text": text, "logprobs": log_probs, "finish_reason": null})
    }
}

impl Wire for Reply {
    fn whole(&self, answers: Vec<Whole>) -> Value {
        let mut usage = Usage::default();
        answers.iter().for_each(|answer| usage.add(&answer.usage));
        let choice = |(index, answer): (usize, Whole)| {
            let mut choice = self.choice(index, &answer.text, (&answer.tokens, 0));
            choice["finish_reason"] = answer.finish.as_ref().map(finish_reason).into();
            choice
        };
        let choices: Vec<Value> = answers.into_iter().enumerate().map(choice).collect();
        let mut value = self.head.json(OBJECT, &choices);
        value["usage"] = usage_json(&usage);
        value
    }

    fn begin(&mut self, _: usize, _: &mut Frames) {}

    fn event(&mut self, choice: usize, output: Output, frames: &mut Frames) {
        let choice = match output {
            Output::Text { text, tokens } => {
                let offset = self.offsets.get(choice).copied().unwrap_or(0);
                let written = self.choice(choice, &text, (&tokens, offset));
                if let Some(offset) = self.offsets.get_mut(choice) {
                    *offset += tokens.iter().map(characters).sum::<usize>();
                }
                written
            }
            Output::Finish { reason, usage } => {
                self.usage.add(&usage);
                let mut choice = json!({"index": choice, "text": "", "logprobs": null});
                choice["finish_reason"] = finish_reason(&reason).into();
                choice
            }
            // Text that is not split has neither thinking nor calls.
            _ => return,
        };
        frames.data(&self.head.event(OBJECT, choice, self.tell_usage));
    }

    fn end(&mut self, frames: &mut Frames) {
        if self.tell_usage {
            let mut chunk = self.head.json(OBJECT, &[]);
            chunk["usage"] = usage_json(&self.usage);
            frames.data(&chunk);
        }
        frames.word("[DONE]");
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.data(&common::error(error));
    }
}

fn characters(token: &TokenOutput) -> usize {
    String::from_utf8_lossy(&token.token.bytes).chars().count()
}

/// Lists side by side; the text of the first token begins at character `offset`.
fn log_probs((tokens, mut offset): (&[TokenOutput], usize)) -> Value {
    let (mut texts, mut probs) = (Vec::new(), Vec::new());
    let (mut tops, mut offsets) = (Vec::new(), Vec::new());
    for TokenOutput { token, top } in tokens {
        let text = String::from_utf8_lossy(&token.bytes).into_owned();
        offsets.push(offset);
        offset += text.chars().count();
        probs.push(token.log_prob);
        texts.push(text);
        let one = |TokenProb { bytes, log_prob }: &TokenProb| {
            (String::from_utf8_lossy(bytes).into_owned(), Value::from(*log_prob))
        };
        tops.push(top.iter().map(one).collect::<Map<String, Value>>());
    }
    json!({
        "tokens": texts, "token_logprobs": probs, "top_logprobs": tops, "text_offset": offsets,
    })
}
