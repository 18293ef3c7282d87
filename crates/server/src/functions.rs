//! Functions that may be called: what is the same of them in all wire formats.

use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use crate::request::{Tool, ToolChoice};
use serde_json::{Value, json};

/// Longest name of a function in bytes.
const MAX_NAME: usize = 128;

/// All functions of a request; `one` reads one of them, with its name in the request.
///
/// # Errors
/// If there are more than `most`, two have the same name, or one is wrong.
pub(crate) fn all(
    values: Vec<Value>,
    most: usize,
    one: impl Fn(Value, &str) -> Result<Tool, ApiError>,
) -> Result<Vec<Tool>, ApiError> {
    if values.len() > most {
        let message = format!("there are {} tools, at most {most} may be", values.len());
        return Err(ApiError::field("tools", message));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(values.len());
    for (number, value) in values.into_iter().enumerate() {
        let place = format!("tools[{number}]");
        let tool = one(value, &place)?;
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("{place}: two tools are called {:?}", tool.name);
            return Err(ApiError::field(place, message));
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// Reads the fields `name`, `description`, `strict` and the schema, which is in the field `schema`.
///
/// # Errors
/// Names the field that is wrong or unknown.
pub(crate) fn function(mut fields: Fields, schema: &str) -> Result<Tool, ApiError> {
    let called = fields.text("name")?.unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if called.is_empty() || called.len() > MAX_NAME || !called.chars().all(allowed) {
        let name = fields.name("name");
        let message =
            format!("{name} must have 1 to {MAX_NAME} characters: letters, digits and _ - . : /");
        return Err(ApiError::field(name, message));
    }
    let description = fields.text("description")?;
    let strict = fields.boolean("strict")? == Some(true);
    let schema_name = fields.name(schema);
    let parameters = fields.value(schema).unwrap_or_else(|| json!({}));
    if !parameters.is_object() {
        return Err(wrong_kind(&schema_name, "an object", &parameters));
    }
    fields.finish()?;
    let mut function = json!({"name": called});
    if let Some(description) = description {
        function["description"] = description.into();
    }
    if strict {
        function["strict"] = true.into();
    }
    function["parameters"] = parameters.clone();
    let definition = json!({"type": "function", "function": function});
    Ok(Tool { name: called, definition, parameters })
}

/// Checks that what must be called is there.
///
/// # Errors
/// [`ApiError`] for the field `tool_choice`.
pub(crate) fn choice(choice: ToolChoice, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    const NAME: &str = "tool_choice";
    match &choice {
        ToolChoice::Function(name) if !tools.iter().any(|tool| tool.name == *name) => {
            let message = "tool_choice names a function that is not among the tools";
            Err(ApiError::field(NAME, message))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(ApiError::field(NAME, "tool_choice asks for a call, but there are no tools"))
        }
        _ if tools.is_empty() => Ok(ToolChoice::None),
        _ => Ok(choice),
    }
}
