//! Tools and tool choice of responses.

use crate::ApiError;
use crate::fields::Fields;
use crate::functions;
use crate::request::{Tool, ToolChoice};
use serde_json::Value;

/// The functions of a request.
pub(super) fn tools(values: Vec<Value>, most: usize) -> Result<Vec<Tool>, ApiError> {
    functions::all(values, most, tool)
}

fn tool(value: Value, name: &str) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(value, name)?;
    let kind = fields.text("type")?.unwrap_or_default();
    if kind != "function" {
        let kind: String = kind.chars().take(50).collect();
        let message = format!("{name}.type is {kind:?}; only function is supported here");
        return Err(ApiError::unsupported(&format!("{name}.type"), message));
    }
    functions::function(fields, "parameters")
}

/// Whether functions are called.
pub(super) fn choice(value: Option<Value>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    const NAME: &str = "tool_choice";
    let wrong = || {
        let message = "tool_choice must be none, auto, required or a function";
        ApiError::field(NAME, message)
    };
    let choice = match value {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            _ => return Err(wrong()),
        },
        Some(value) => {
            let mut fields = Fields::of(value, NAME)?;
            if fields.text("type")?.as_deref() != Some("function") {
                return Err(wrong());
            }
            let name = fields.text("name")?.unwrap_or_default();
            fields.finish()?;
            ToolChoice::Function(name)
        }
    };
    functions::choice(choice, tools)
}
