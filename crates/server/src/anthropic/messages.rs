//! Messages as Anthropic writes them, into messages as chat templates expect them: results of
//! tools, which are parts of a user's message there, become messages of their own.

use crate::ApiError;
use crate::content::{self, Kinds, arguments, content, results_in_order};
use crate::fields::{Fields, wrong_kind};
use serde_json::{Map, Value, json};

/// Blocks that are text.
const TEXT: Kinds = &[("text", "text")];

/// All messages of a request, its `system` in front.
pub(super) fn messages(
    system: Option<Value>,
    messages: Value,
    most: usize,
) -> Result<Vec<Value>, ApiError> {
    let values = match messages {
        Value::Array(values) => values,
        other => return Err(wrong_kind("messages", "an array", &other)),
    };
    if values.is_empty() {
        return Err(ApiError::field("messages", "messages is empty; there must be one at least"));
    }
    if values.len() > most {
        let message = format!("there are {} messages, at most {most} may be", values.len());
        return Err(ApiError::field("messages", message));
    }
    let mut found = Vec::with_capacity(values.len() + 1);
    if let Some(system) = system {
        found.push(json!({"role": "system", "content": content(system, "system", TEXT)?}));
    }
    for (number, value) in values.into_iter().enumerate() {
        let name = format!("messages[{number}]");
        let mut fields = Fields::of(value, &name)?;
        let role = fields.text("role")?.unwrap_or_default();
        let blocks = blocks(fields.required("content")?, &fields.name("content"))?;
        match role.as_str() {
            "user" => user(blocks, &mut found)?,
            "assistant" => found.push(assistant(blocks)?),
            _ => {
                let name = fields.name("role");
                let message = format!("{name} must be user or assistant; for others use system");
                return Err(ApiError::field(name, message));
            }
        }
        fields.finish()?;
    }
    if found.last().is_some_and(|message| message["role"] == "assistant") {
        let message = "the last message is the assistant's: answers cannot be begun for the \
                       model here; end with a message of the user";
        return Err(ApiError::field("messages", message));
    }
    results_in_order(&mut found);
    Ok(found)
}

/// A block of a message: its name in the request, its type, and its other fields.
type Block = (String, String, Fields);

fn blocks(value: Value, name: &str) -> Result<Vec<Block>, ApiError> {
    let values = match value {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(values) => values,
        other => return Err(wrong_kind(name, "a string or an array of blocks", &other)),
    };
    content::not_too_many(&values, name)?;
    let one = |(number, value)| {
        let name = format!("{name}[{number}]");
        let mut fields = Fields::of(value, &name)?;
        let kind = fields.text("type")?.unwrap_or_default();
        Ok((name, kind, fields))
    };
    values.into_iter().enumerate().map(one).collect()
}

/// A user's message: texts that follow each other, and results of tools between them.
fn user(blocks: Vec<Block>, found: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut texts = Vec::new();
    let is_empty = blocks.is_empty();
    for (name, kind, fields) in blocks {
        if kind != "tool_result" {
            texts.push(content::text_part(fields, &kind, (&name, TEXT))?);
            continue;
        }
        if !texts.is_empty() {
            found.push(json!({"role": "user", "content": std::mem::take(&mut texts)}));
        }
        found.push(result(fields)?);
    }
    if !texts.is_empty() || is_empty {
        found.push(json!({"role": "user", "content": texts}));
    }
    Ok(())
}

fn result(mut fields: Fields) -> Result<Value, ApiError> {
    let id = fields.required("tool_use_id")?;
    let name = fields.name("content");
    let content = fields.value("content").map(|value| content(value, &name, TEXT)).transpose()?;
    // Templates know nothing of failed tools; what failed stands in the text.
    fields.boolean("is_error")?;
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    let content = content.unwrap_or_else(|| "".into());
    Ok(json!({"role": "tool", "tool_call_id": id, "content": content}))
}

fn assistant(blocks: Vec<Block>) -> Result<Value, ApiError> {
    let (mut reasoning, mut texts, mut calls) = (String::new(), Vec::new(), Vec::new());
    for (name, kind, mut fields) in blocks {
        match kind.as_str() {
            "thinking" => {
                reasoning.push_str(&fields.text("thinking")?.unwrap_or_default());
                // Whose thought it is cannot be told and does not matter here.
                fields.ignore(&["signature", "cache_control"]);
                fields.finish()?;
            }
            // Nobody but its author can read it.
            "redacted_thinking" => {}
            "tool_use" => calls.push(call(fields)?),
            _ => texts.push(content::text_part(fields, &kind, (&name, TEXT))?),
        }
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    if !reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    message.insert("content".to_owned(), texts.into());
    Ok(message.into())
}

fn call(mut fields: Fields) -> Result<Value, ApiError> {
    let id = fields.required("id")?;
    let called = fields.required("name")?;
    let name = fields.name("input");
    let input = arguments(fields.value("input"), &name)?;
    fields.ignore(&["cache_control", "caller"]);
    fields.finish()?;
    let function = json!({"name": called, "arguments": input});
    Ok(json!({"id": id, "type": "function", "function": function}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: Value) -> Result<Vec<Value>, ApiError> {
        messages(None, values, 10)
    }

    #[test]
    fn messages_become_what_templates_expect() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let result = |id: &str| {
            json!({"type": "tool_result", "tool_use_id": id, "content": [text(id)],
                "is_error": false})
        };
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}});
        let given = json!([
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "redacted_thinking", "data": "x"},
                text("Well"), call("1"), call("2"),
            ]},
            {"role": "user", "content": [result("2"), result("1"), text("And?")]},
        ]);
        let call = json!({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}});
        let expected = [
            json!({"role": "system", "content": [text("Be brief.")]}),
            json!({"role": "user", "content": [text("Hello")]}),
            json!({"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [call, call],
                "content": [text("Well")]}),
            json!({"role": "tool", "content": [text("1")]}),
            json!({"role": "tool", "content": [text("2")]}),
            json!({"role": "user", "content": [text("And?")]}),
        ];
        let system = json!([{"type": "text", "text": "Be brief.", "cache_control": {}}]);
        assert_eq!(messages(Some(system), given, 10).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let image = json!({"type": "image", "source": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": [image]});
        let user = |content: Value| json!([{"role": "user", "content": content}]);
        for (messages, param) in [
            (json!([]), "messages"),
            (json!("x"), "messages"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user", "content": "x", "y": 1}]), "messages[0].y"),
            (json!([{"role": "assistant", "content": "x"}]), "messages"),
            (user(json!([image])), "messages[0].content[0].type"),
            (user(json!([result])), "messages[0].content[0].content[0].type"),
            (user(json!([{"type": "tool_result"}])), "messages[0].content[0].tool_use_id"),
        ] {
            let error = read(messages.clone()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{messages}");
        }
    }
}
