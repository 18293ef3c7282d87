//! What an answer must look like, as OpenAI, vLLM and llama.cpp have it written.

use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use crate::request::{Format, Rule};
use serde_json::{Value, json};

const RESPONSE_FORMAT: &str = "response_format";
const TYPES: &str = "text, json_object, json_schema, regex or grammar";
/// Texts of a choice at most.
const MAX_CHOICES: usize = 1000;

/// The format that a request asks for: `response_format`, one of vLLM's `guided_...`, or its
/// `structured_outputs`.
pub(super) fn format(fields: &mut Fields) -> Result<Format, ApiError> {
    let mut found = Vec::new();
    if let Some(value) = fields.value(RESPONSE_FORMAT) {
        found.extend(response_format(value)?);
    }
    for (kind, name) in [
        ("json", "guided_json"),
        ("regex", "guided_regex"),
        ("grammar", "guided_grammar"),
        ("choice", "guided_choice"),
    ] {
        if let Some(value) = fields.value(name) {
            found.push(rule(kind, value, name.to_owned())?);
        }
    }
    if let Some(value) = fields.value("structured_outputs") {
        let mut parts = Fields::of(value, "structured_outputs")?;
        for kind in ["json", "regex", "grammar", "choice"] {
            let name = parts.name(kind);
            if let Some(value) = parts.value(kind) {
                found.push(rule(kind, value, name)?);
            }
        }
        if parts.boolean("json_object")? == Some(true) {
            found.push(rule("json", object(), parts.name("json_object"))?);
        }
        parts.finish()?;
    }
    match <[(Rule, String); 1]>::try_from(found) {
        Ok([(rule, field)]) => Ok(Format::Rule { rule, field }),
        Err(none) if none.is_empty() => Ok(Format::Text),
        Err(several) => {
            let names: Vec<&str> = several.iter().map(|(_, field)| field.as_str()).collect();
            let message = format!("an answer can have one format, not {}", names.join(" and "));
            Err(ApiError::field(names[1], message))
        }
    }
}

/// `response_format`; nothing for plain text.
fn response_format(value: Value) -> Result<Option<(Rule, String)>, ApiError> {
    let mut format = Fields::of(value, RESPONSE_FORMAT)?;
    let kind = format.text("type")?.unwrap_or_default();
    let found = match kind.as_str() {
        "text" => None,
        "json_object" => {
            // llama.cpp takes a schema here.
            let schema = format.value("schema");
            let field = if schema.is_some() { format.name("schema") } else { format.name("type") };
            Some(rule("json", schema.unwrap_or_else(object), field)?)
        }
        "json_schema" => {
            let mut named =
                Fields::of(format.required("json_schema")?, "response_format.json_schema")?;
            named.text("name")?;
            named.text("description")?;
            // A schema is kept to in each case.
            named.boolean("strict")?;
            let field = named.name("schema");
            let schema = named.value("schema").unwrap_or_else(|| json!({}));
            named.finish()?;
            Some(rule("json", schema, field)?)
        }
        "regex" | "grammar" => {
            let name = match (kind.as_str(), format.has("pattern")) {
                ("regex", true) => "pattern",
                (kind, _) => kind,
            }
            .to_owned();
            Some(rule(&kind, format.required(&name)?, format.name(&name))?)
        }
        _ => {
            let message = format!("{RESPONSE_FORMAT}.type must be {TYPES}");
            return Err(ApiError::unsupported("response_format.type", message));
        }
    };
    format.finish()?;
    Ok(found)
}

fn object() -> Value {
    json!({ "type": "object" })
}

fn rule(kind: &str, value: Value, field: String) -> Result<(Rule, String), ApiError> {
    let text = |value: Value| match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        Value::String(_) => Err(ApiError::field(&field, format!("{field} is empty"))),
        other => Err(wrong_kind(&field, "a string", &other)),
    };
    let rule = match kind {
        "json" => Rule::Schema(schema(value, &field)?),
        "regex" => Rule::Regex(text(value)?),
        "grammar" => Rule::Lark(text(value)?),
        _ => Rule::Choice(choice(value, &field)?),
    };
    Ok((rule, field))
}

/// A schema, or the text of one, as vLLM takes it as well.
fn schema(value: Value, field: &str) -> Result<Value, ApiError> {
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(value),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(other) => Err(wrong_kind(field, "a JSON schema", &other)),
            Err(error) => Err(ApiError::field(field, format!("{field} is no JSON: {error}"))),
        },
        other => Err(wrong_kind(field, "a JSON schema", &other)),
    }
}

fn choice(value: Value, field: &str) -> Result<Vec<String>, ApiError> {
    let Value::Array(items) = value else {
        return Err(wrong_kind(field, "an array of strings", &value));
    };
    if items.is_empty() || items.len() > MAX_CHOICES {
        let message = format!("{field} must have 1 to {MAX_CHOICES} texts, found {}", items.len());
        return Err(ApiError::field(field, message));
    }
    let one = |item: Value| match item {
        Value::String(text) => Ok(text),
        other => Err(wrong_kind(field, "an array of strings", &other)),
    };
    items.into_iter().map(one).collect()
}
