//! The input of a response: items, into messages as chat templates expect them. What the model
//! thought, said and called one after the other becomes one message of the assistant.

use crate::ApiError;
use crate::content::{Kinds, arguments, content, results_in_order};
use crate::fields::{Fields, wrong_kind};
use serde_json::{Map, Value, json};

const PARTS: Kinds =
    &[("input_text", "text"), ("output_text", "text"), ("text", "text"), ("refusal", "refusal")];
const THOUGHTS: Kinds = &[("reasoning_text", "text"), ("summary_text", "text")];

/// The conversation that `instructions` and `input` are.
pub(super) fn messages(
    instructions: Option<&str>,
    input: Value,
    most: usize,
) -> Result<Vec<Value>, ApiError> {
    let values = match input {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        Value::Array(values) => values,
        other => return Err(wrong_kind("input", "a string or an array of items", &other)),
    };
    if values.is_empty() {
        return Err(ApiError::field("input", "input is empty; there must be one item at least"));
    }
    if values.len() > most {
        let message = format!("input has {} items, at most {most} may be", values.len());
        return Err(ApiError::field("input", message));
    }
    let mut all = Conversation::default();
    if let Some(text) = instructions {
        all.system(text.into());
    }
    for (number, value) in values.into_iter().enumerate() {
        all.item(value, &format!("input[{number}]"))?;
    }
    all.end_turn();
    results_in_order(&mut all.messages);
    Ok(all.messages)
}

/// A conversation in the making.
#[derive(Default)]
struct Conversation {
    messages: Vec<Value>,
    /// The message of the assistant that more may be added to.
    turn: Map<String, Value>,
    /// What it thought, item by item.
    thoughts: Vec<String>,
}

impl Conversation {
    fn item(&mut self, value: Value, name: &str) -> Result<(), ApiError> {
        let mut fields = Fields::of(value, name)?;
        let kind = fields.text("type")?;
        match kind.as_deref().unwrap_or("message") {
            "message" => self.message(&mut fields)?,
            "reasoning" => self.reasoning(&mut fields)?,
            "function_call" => self.call(&mut fields)?,
            "function_call_output" => self.output(&mut fields)?,
            other => {
                let other: String = other.chars().take(50).collect();
                let name = fields.name("type");
                let message = format!(
                    "{name} is {other:?}; only message, reasoning, function_call and \
                     function_call_output are supported here"
                );
                return Err(ApiError::unsupported(&name, message));
            }
        }
        fields.ignore(&["id", "status", "phase"]);
        fields.finish()
    }

    fn message(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let role = fields.text("role")?.unwrap_or_default();
        let name = fields.name("content");
        let content = content(fields.required("content")?, &name, PARTS)?;
        match role.as_str() {
            "assistant" => {
                if self.turn.contains_key("content") || self.turn.contains_key("tool_calls") {
                    self.end_turn();
                }
                self.turn.insert("content".to_owned(), content);
            }
            "user" => {
                self.end_turn();
                self.messages.push(json!({"role": "user", "content": content}));
            }
            "system" | "developer" => {
                self.end_turn();
                self.system(content);
            }
            _ => {
                let name = fields.name("role");
                let message = format!("{name} must be user, assistant, system or developer");
                return Err(ApiError::field(name, message));
            }
        }
        Ok(())
    }

    /// Instructions; those at the beginning become one message, since templates take no more.
    fn system(&mut self, content: Value) {
        match &mut self.messages[..] {
            [first] if first["role"] == "system" => {
                let parts = |content: Value| match content {
                    Value::Array(parts) => parts,
                    text => vec![json!({"type": "text", "text": text})],
                };
                let mut all = parts(first["content"].take());
                all.push(json!({"type": "text", "text": "\n\n"}));
                all.extend(parts(content));
                first["content"] = all.into();
            }
            _ => self.messages.push(json!({"role": "system", "content": content})),
        }
    }

    fn reasoning(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let mut text = String::new();
        // A summary is for whoever cannot have the thoughts themselves.
        for field in ["content", "summary"] {
            let name = fields.name(field);
            let Some(value) = fields.value(field) else { continue };
            let parts = content(value, &name, THOUGHTS)?;
            let texts = parts.as_array().into_iter().flatten();
            let found: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
            if text.is_empty() {
                text = found.join("\n\n");
            }
        }
        fields.ignore(&["encrypted_content"]);
        if self.turn.contains_key("content") || self.turn.contains_key("tool_calls") {
            self.end_turn();
        }
        self.thoughts.push(text);
        Ok(())
    }

    fn call(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let id = fields.required("call_id")?;
        let called = fields.required("name")?;
        let name = fields.name("arguments");
        let arguments = arguments(fields.value("arguments"), &name)?;
        let function = json!({"name": called, "arguments": arguments});
        let call = json!({"id": id, "type": "function", "function": function});
        let calls = self.turn.entry("tool_calls").or_insert_with(|| json!([]));
        calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
        Ok(())
    }

    fn output(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        self.end_turn();
        let id = fields.required("call_id")?;
        let name = fields.name("output");
        let content = content(fields.required("output")?, &name, PARTS)?;
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
        Ok(())
    }

    fn end_turn(&mut self) {
        if self.turn.is_empty() && self.thoughts.is_empty() {
            return;
        }
        let mut message = Map::from_iter([("role".to_owned(), Value::from("assistant"))]);
        if !self.thoughts.is_empty() {
            let thoughts = std::mem::take(&mut self.thoughts).join("\n\n");
            message.insert("reasoning_content".to_owned(), thoughts.into());
        }
        message.append(&mut self.turn);
        message.entry("content").or_insert_with(|| "".into());
        self.messages.push(message.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_become_what_templates_expect() {
        let call = |id: &str| {
            json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\":1}",
                "id": "fc", "status": "completed"})
        };
        let output =
            |id: &str| json!({"type": "function_call_output", "call_id": id, "output": id});
        let input = json!([
            {"role": "developer", "content": [{"type": "input_text", "text": "More."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "id": "r", "summary": [],
                "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "b", "annotations": []}]},
            call("1"), call("2"), output("2"), output("1"),
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Or not."}]},
            {"role": "assistant", "content": "c"},
            {"role": "assistant", "content": "d"},
            {"role": "user", "content": "e"},
        ]);
        let text = |text: &str| json!({"type": "text", "text": text});
        let call = json!({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}});
        let expected = [
            json!({"role": "system", "content": [text("Be brief."), text("\n\n"), text("More.")]}),
            json!({"role": "user", "content": [text("a")]}),
            json!({"role": "assistant", "reasoning_content": "Hm.", "content": [text("b")],
                "tool_calls": [call, call]}),
            json!({"role": "tool", "content": "1"}),
            json!({"role": "tool", "content": "2"}),
            json!({"role": "assistant", "reasoning_content": "So.\n\nOr not.",
                "content": "c"}),
            json!({"role": "assistant", "content": "d"}),
            json!({"role": "user", "content": "e"}),
        ];
        assert_eq!(messages(Some("Be brief."), input, 20).unwrap(), expected);
        let text = messages(None, "Hello".into(), 1).unwrap();
        assert_eq!(text, [json!({"role": "user", "content": "Hello"})]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let image = json!({"type": "input_image", "image_url": "data:"});
        for (input, param) in [
            (json!(1), "input"),
            (json!([]), "input"),
            (json!([1]), "input[0]"),
            (json!([{"role": "tool", "content": "x"}]), "input[0].role"),
            (json!([{"role": "user", "content": [image]}]), "input[0].content[0].type"),
            (json!([{"type": "item_reference", "id": "x"}]), "input[0].type"),
            (json!([{"type": "function_call_output", "call_id": "x"}]), "input[0].output"),
            (
                json!([{"type": "function_call", "call_id": "x", "name": "f", "arguments": "["}]),
                "input[0].arguments",
            ),
        ] {
            let error = messages(None, input.clone(), 10).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{input}");
        }
    }
}
