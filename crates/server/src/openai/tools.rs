//! Tools and tool choice as OpenAI writes them.

use crate::ApiError;
use crate::fields::Fields;
use crate::functions;
use crate::request::{Tool, ToolChoice};
use serde_json::Value;

/// The functions of a request.
pub(super) fn tools(values: Vec<Value>, most: usize) -> Result<Vec<Tool>, ApiError> {
    functions::all(values, most, tool)
}

fn tool(definition: Value, name: &str) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(definition.clone(), name)?;
    let kind = fields.text("type")?.unwrap_or_default();
    if kind != "function" {
        let kind: String = kind.chars().take(50).collect();
        let message = format!("{name}.type is {kind:?}; only function is supported here");
        return Err(ApiError::unsupported(&format!("{name}.type"), message));
    }
    let function_name = fields.name("function");
    let function = Fields::of(fields.required("function")?, &function_name)?;
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    // The definition goes to the template as it was written.
    Ok(Tool { definition, ..functions::function(function, "parameters")? })
}

/// Whether functions are called.
pub(super) fn choice(value: Option<Value>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    const NAME: &str = "tool_choice";
    let choice = match value {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            _ => {
                let message = "tool_choice must be none, auto, required or a function";
                return Err(ApiError::field(NAME, message));
            }
        },
        Some(value) => {
            let mut fields = Fields::of(value, NAME)?;
            if fields.text("type")?.as_deref() != Some("function") {
                let message = "tool_choice.type must be function";
                return Err(ApiError::unsupported("tool_choice.type", message));
            }
            let mut function = Fields::of(fields.required("function")?, "tool_choice.function")?;
            let name = function.text("name")?.unwrap_or_default();
            function.finish()?;
            fields.finish()?;
            ToolChoice::Function(name)
        }
    };
    functions::choice(choice, tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_are_checked() {
        let good = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
        let read = tools(vec![good.clone()], 2).unwrap();
        assert_eq!((read[0].name.as_str(), &read[0].definition), ("f", &good));
        for (function, param) in [
            (json!({"name": ""}), "tools[0].function.name"),
            (json!({"name": "a b"}), "tools[0].function.name"),
            (json!({"name": "a<b>"}), "tools[0].function.name"),
            (json!({"name": "f", "parameters": []}), "tools[0].function.parameters"),
            (json!({"name": "f", "strict": 1}), "tools[0].function.strict"),
            (json!({"name": "f", "extra": 1}), "tools[0].function.extra"),
        ] {
            let tool = json!({"type": "function", "function": function});
            assert_eq!(tools(vec![tool], 2).unwrap_err().param.as_deref(), Some(param));
        }
        assert!(tools(vec![good.clone(), good.clone()], 2).is_err());
        assert!(tools(vec![json!({"type": "web_search"})], 2).is_err());
        let named = json!({"type": "function", "function": {"name": "f"}});
        assert_eq!(choice(Some(named), &read).unwrap(), ToolChoice::Function("f".into()));
        let other = json!({"type": "function", "function": {"name": "g"}});
        assert!(choice(Some(other), &read).is_err());
        assert!(choice(Some("required".into()), &[]).is_err());
        assert_eq!(choice(Some("none".into()), &[]).unwrap(), ToolChoice::None);
    }
}
