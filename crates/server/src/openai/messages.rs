//! Messages as OpenAI writes them, into messages as chat templates expect them.

use crate::ApiError;
use crate::content::{Kinds, arguments, content, not_too_many, results_in_order};
use crate::fields::Fields;
use serde_json::{Map, Value, json};

/// Fields of a message that templates have no use for.
const UNUSED: [&str; 5] = ["name", "refusal", "annotations", "audio", "id"];

/// Parts of a content that are text.
const PARTS: Kinds = &[("text", "text"), ("refusal", "refusal")];

/// All messages of a request.
pub(super) fn messages(values: Vec<Value>, most: usize) -> Result<Vec<Value>, ApiError> {
    if values.is_empty() {
        return Err(ApiError::field("messages", "messages is empty; there must be one at least"));
    }
    if values.len() > most {
        let message = format!("there are {} messages, at most {most} may be", values.len());
        return Err(ApiError::field("messages", message));
    }
    let one = |(number, value)| message(value, &format!("messages[{number}]"));
    let mut messages: Vec<Value> =
        values.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
    results_in_order(&mut messages);
    Ok(messages)
}

fn message(value: Value, name: &str) -> Result<Value, ApiError> {
    let mut fields = Fields::of(value, name)?;
    let role = fields.text("role")?;
    let role = match role.as_deref() {
        Some("system" | "developer") => "system",
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some("tool") => "tool",
        Some(other) => {
            let other: String = other.chars().take(50).collect();
            let message = format!(
                "{name}.role is {other:?}; it must be system, developer, user, assistant or tool"
            );
            return Err(ApiError::field(format!("{name}.role"), message));
        }
        None => return Err(ApiError::field(format!("{name}.role"), format!("{name} has no role"))),
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), role.into());
    let content_name = fields.name("content");
    let content = fields.value("content").map(|value| content(value, &content_name, PARTS));
    let content = content.transpose()?;
    if role == "assistant" {
        let reasoning = fields.text("reasoning_content")?;
        let reasoning = reasoning.or(fields.text("reasoning")?);
        if let Some(text) = reasoning {
            message.insert("reasoning_content".to_owned(), text.into());
        }
        let calls_name = fields.name("tool_calls");
        if let Some(calls) = fields.array("tool_calls")? {
            not_too_many(&calls, &calls_name)?;
            let one = |(number, value)| call(value, &format!("{calls_name}[{number}]"));
            let calls: Vec<Value> =
                calls.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
            message.insert("tool_calls".to_owned(), calls.into());
        }
    } else if content.is_none() {
        let message = format!("{content_name} is missing");
        return Err(ApiError::field(content_name, message));
    }
    if role == "tool" {
        message.insert("tool_call_id".to_owned(), fields.text("tool_call_id")?.into());
    }
    message.insert("content".to_owned(), content.unwrap_or_else(|| "".into()));
    fields.ignore(&UNUSED);
    fields.finish()?;
    Ok(Value::Object(message))
}

/// A call that the model made before; templates want its arguments as an object.
fn call(value: Value, name: &str) -> Result<Value, ApiError> {
    let mut fields = Fields::of(value, name)?;
    let kind = fields.text("type")?;
    if kind.as_deref().is_some_and(|kind| kind != "function") {
        let name = format!("{name}.type");
        let message = format!("{name} must be function");
        return Err(ApiError::field(name, message));
    }
    let function_name = fields.name("function");
    let mut function = Fields::of(fields.required("function")?, &function_name)?;
    let called = function.text("name")?.unwrap_or_default();
    let arguments_name = function.name("arguments");
    let arguments = arguments(function.value("arguments"), &arguments_name)?;
    let id = fields.text("id")?;
    Ok(json!({"id": id, "type": "function", "function": {"name": called, "arguments": arguments}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(message: Value) -> String {
        messages(vec![message], 10).unwrap_err().param.unwrap()
    }

    #[test]
    fn messages_become_what_templates_expect() {
        let given = vec![
            json!({"role": "developer", "content": "Be brief."}),
            json!({"role": "user", "content": [{"type": "text", "text": "a"}], "name": "x"}),
            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [
                {"id": "c", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
                {"id": "d", "type": "function", "function": {"name": "g", "arguments": ""}},
            ]}),
            json!({"role": "tool", "tool_call_id": "c", "content": "result"}),
        ];
        let expected = [
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": [{"type": "text", "text": "a"}]}),
            json!({"role": "assistant", "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
                {"type": "function", "function": {"name": "g", "arguments": {}}},
            ], "content": ""}),
            json!({"role": "tool", "content": "result"}),
        ];
        assert_eq!(messages(given, 10).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
        let cases = [
            (json!({"content": "x"}), "messages[0].role"),
            (json!({"role": "function", "content": "x"}), "messages[0].role"),
            (json!({"role": "user"}), "messages[0].content"),
            (json!({"role": "user", "content": 1}), "messages[0].content"),
            (json!({"role": "user", "content": [image]}), "messages[0].content[0].type"),
            (json!({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
            (json!({"role": "user", "content": "x", "magic": 1}), "messages[0].magic"),
            (
                json!({"role": "assistant", "tool_calls": [{"function": {"arguments": "[1]"}}]}),
                "messages[0].tool_calls[0].function.arguments",
            ),
        ];
        for (message, expected) in cases {
            assert_eq!(param(message), expected);
        }
        assert!(messages(vec![], 10).is_err());
        assert!(messages(vec![json!({"role": "user", "content": "x"}); 11], 10).is_err());
    }
}
