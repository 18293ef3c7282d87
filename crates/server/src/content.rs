//! The content of messages: a text, or a list of parts that are texts. And the results of tool
//! calls, which templates can tell apart by their order alone.

use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The kinds of parts that a wire format has texts in, each with the field that holds the text.
pub(crate) type Kinds = &'static [(&'static str, &'static str)];

/// Fields of parts that no answer depends on.
const UNUSED: [&str; 4] = ["annotations", "cache_control", "citations", "logprobs"];

/// Parts of a message at most.
const MAX_PARTS: usize = 4096;

/// That a message has not too many parts; `name` is that of the field that holds them.
///
/// # Errors
/// [`ApiError`] for the field.
pub(crate) fn not_too_many(parts: &[Value], name: &str) -> Result<(), ApiError> {
    match parts.len() {
        0..=MAX_PARTS => Ok(()),
        many => {
            let message = format!("{name} has {many} parts, at most {MAX_PARTS} may be");
            Err(ApiError::field(name, message))
        }
    }
}

/// Content as templates expect it; `name` is that of the field.
///
/// # Errors
/// Whatever is neither text nor a list of texts.
pub(crate) fn content(value: Value, name: &str, kinds: Kinds) -> Result<Value, ApiError> {
    match value {
        Value::String(text) => Ok(Value::String(text)),
        Value::Array(parts) => {
            not_too_many(&parts, name)?;
            let one = |(number, value)| {
                let name = format!("{name}[{number}]");
                let mut part = Fields::of(value, &name)?;
                let kind = part.text("type")?.unwrap_or_default();
                text_part(part, &kind, (&name, kinds))
            };
            Ok(Value::Array(parts.into_iter().enumerate().map(one).collect::<Result<_, _>>()?))
        }
        other => Err(wrong_kind(name, "a string or an array of parts", &other)),
    }
}

/// A part of the given kind, whose type has been taken out.
///
/// # Errors
/// If it is no text.
pub(crate) fn text_part(
    mut fields: Fields,
    kind: &str,
    (name, kinds): (&str, Kinds),
) -> Result<Value, ApiError> {
    let Some((_, field)) = kinds.iter().find(|(known, _)| *known == kind) else {
        return Err(unsupported(kind, name));
    };
    let text_name = fields.name(field);
    let text = fields.text(field)?;
    let text =
        text.ok_or_else(|| ApiError::field(&text_name, format!("{text_name} is missing")))?;
    fields.ignore(&UNUSED);
    fields.finish()?;
    Ok(json!({"type": "text", "text": text}))
}

/// A part that is not done here.
pub(crate) fn unsupported(kind: &str, name: &str) -> ApiError {
    let kind: String = kind.chars().take(50).collect();
    let message =
        format!("{name}.type is {kind:?}: only text is supported here, no images, audio or files");
    let code = Some("unsupported_content");
    ApiError { code, ..ApiError::field(format!("{name}.type"), message) }
}

/// Arguments of a call that the model made before, as the object that templates want; `value` is
/// that or its JSON.
///
/// # Errors
/// If it is neither.
pub(crate) fn arguments(value: Option<Value>, name: &str) -> Result<Value, ApiError> {
    let arguments = match value {
        None => json!({}),
        Some(Value::String(text)) if text.trim().is_empty() => json!({}),
        Some(Value::String(text)) => serde_json::from_str(&text)
            .map_err(|error| ApiError::field(name, format!("{name} is not valid JSON: {error}")))?,
        Some(other) => other,
    };
    match arguments {
        Value::Object(_) => Ok(arguments),
        other => Err(wrong_kind(name, "a JSON object", &other)),
    }
}

/// Puts results (`tool_call_id` of messages with the role tool) into the order of the calls (`id`)
/// that they answer, since templates write no ids; then takes the ids out. Results of calls that
/// are not there stay behind the others.
pub(crate) fn results_in_order(messages: &mut [Value]) {
    let mut places: HashMap<Value, usize> = HashMap::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        if message["role"] != "tool" {
            let ids = message["tool_calls"].as_array().into_iter().flatten();
            places.clear();
            for (place, id) in ids.map(|call| &call["id"]).enumerate().filter(|it| !it.1.is_null())
            {
                places.entry(id.clone()).or_insert(place);
            }
            at += 1;
            continue;
        }
        let count = messages[at..].iter().take_while(|it| it["role"] == "tool").count();
        let results = &mut messages[at..at + count];
        results.sort_by_cached_key(|result| {
            places.get(&result["tool_call_id"]).copied().unwrap_or(usize::MAX)
        });
        at += count;
    }
    for message in messages {
        let Some(message) = message.as_object_mut() else { continue };
        message.shift_remove("tool_call_id");
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            call.shift_remove("id");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_follow_their_calls_whatever_order_they_came_in() {
        let call = |id: &str| json!({"id": id, "function": {"name": id}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let mut messages = vec![
            json!({"role": "assistant", "tool_calls": [call("a"), call("b"), call("c")]}),
            result("c"),
            result("unknown"),
            result("a"),
            json!({"role": "tool", "content": "none"}),
            result("b"),
            json!({"role": "user", "content": "x"}),
            json!({"role": "assistant", "tool_calls": [call("d")]}),
            result("d"),
        ];
        results_in_order(&mut messages);
        let contents: Vec<&str> =
            messages.iter().filter_map(|message| message["content"].as_str()).collect();
        assert_eq!(contents, ["a", "b", "c", "unknown", "none", "x", "d"]);
        assert!(!Value::from(messages).to_string().contains("id\":"));
    }

    #[test]
    fn many_results_are_ordered_soon() {
        // As many as a body of 16 MiB holds; looked for one by one they would take minutes.
        const MANY: usize = 100_000;
        let call = |id: usize| json!({"id": id.to_string()});
        let calls: Vec<Value> = (0..MANY).map(call).collect();
        let result =
            |id: usize| json!({"role": "tool", "tool_call_id": id.to_string(), "content": id});
        let mut messages = vec![json!({"role": "assistant", "tool_calls": calls})];
        messages.extend((0..MANY).rev().map(result));
        let started = std::time::Instant::now();
        results_in_order(&mut messages);
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
        assert!(messages[1..].iter().enumerate().all(|(at, message)| message["content"] == at));
    }

    #[test]
    fn parts_that_are_no_text_are_named() {
        const KINDS: Kinds = &[("text", "text")];
        let read = |value| content(value, "content", KINDS);
        let good = json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]);
        assert_eq!(read(good).unwrap(), json!([{"type": "text", "text": "a"}]));
        for (value, param) in [
            (json!([{"type": "image"}]), "content[0].type"),
            (json!([{"type": "text"}]), "content[0].text"),
            (json!([{"type": "text", "text": "a", "more": 1}]), "content[0].more"),
            (json!(["a"]), "content[0]"),
            (json!(1), "content"),
            (vec![json!({"type": "text", "text": ""}); MAX_PARTS + 1].into(), "content"),
        ] {
            assert_eq!(read(value).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
