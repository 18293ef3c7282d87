//! Tools and tool choice as Anthropic writes them.

use crate::ApiError;
use crate::fields::Fields;
use crate::functions;
use crate::request::{Tool, ToolChoice};
use serde_json::Value;

/// Fields of a tool that change nothing about how it is called.
const UNUSED: [&str; 4] =
    ["cache_control", "eager_input_streaming", "input_examples", "allowed_callers"];

/// The functions of a request.
pub(super) fn tools(values: Vec<Value>, most: usize) -> Result<Vec<Tool>, ApiError> {
    functions::all(values, most, tool)
}

fn tool(value: Value, name: &str) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(value, name)?;
    let kind = fields.text("type")?;
    if kind.as_deref().is_some_and(|kind| kind != "custom") {
        let kind: String = kind.unwrap_or_default().chars().take(50).collect();
        let message = format!("{name}.type is {kind:?}; only custom tools are supported here");
        return Err(ApiError::unsupported(&format!("{name}.type"), message));
    }
    if fields.boolean("defer_loading")? == Some(true) {
        let message = "tools are not searched for here; leave defer_loading out";
        return Err(ApiError::unsupported(&fields.name("defer_loading"), message));
    }
    fields.ignore(&UNUSED);
    functions::function(fields, "input_schema")
}

/// Whether functions are called, and whether several may be.
pub(super) fn choice(value: Option<Value>, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    const NAME: &str = "tool_choice";
    let Some(value) = value else {
        return Ok((functions::choice(ToolChoice::Auto, tools)?, true));
    };
    let mut fields = Fields::of(value, NAME)?;
    let kind = fields.text("type")?.unwrap_or_default();
    let choice = match kind.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Function(fields.text("name")?.unwrap_or_default()),
        _ => {
            let message = "tool_choice.type must be auto, any, tool or none";
            return Err(ApiError::field("tool_choice.type", message));
        }
    };
    let one_call = fields.boolean("disable_parallel_tool_use")?.unwrap_or(false);
    fields.finish()?;
    Ok((functions::choice(choice, tools)?, !one_call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_become_functions() {
        let schema = json!({"type": "object", "properties": {}});
        let given = json!({"name": "f", "description": "d", "input_schema": schema,
            "cache_control": {"type": "ephemeral"}, "type": "custom"});
        let read = tools(vec![given], 1).unwrap();
        let function = json!({"name": "f", "description": "d", "parameters": schema});
        assert_eq!(read[0].definition, json!({"type": "function", "function": function}));
        assert_eq!(read[0].parameters, schema);
        for (tool, param) in [
            (json!({"name": "f", "type": "bash_20250124"}), "tools[0].type"),
            (json!({"input_schema": {}}), "tools[0].name"),
            (json!({"name": "f", "input_schema": 1}), "tools[0].input_schema"),
            (json!({"name": "f", "strict": "yes"}), "tools[0].strict"),
            (json!({"name": "f", "parameters": {}}), "tools[0].parameters"),
        ] {
            assert_eq!(tools(vec![tool], 1).unwrap_err().param.as_deref(), Some(param));
        }
        let strict = tools(vec![json!({"name": "f", "strict": true})], 1).unwrap();
        assert!(strict[0].is_strict() && !read[0].is_strict());
        let ask = |value| choice(Some(value), &read);
        let one = json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true});
        assert_eq!(ask(one).unwrap(), (ToolChoice::Function("f".into()), false));
        assert_eq!(ask(json!({"type": "any"})).unwrap(), (ToolChoice::Required, true));
        assert_eq!(choice(None, &[]).unwrap(), (ToolChoice::None, true));
        assert!(ask(json!({"type": "tool", "name": "g"})).is_err());
        assert!(ask(json!("auto")).is_err());
    }
}
