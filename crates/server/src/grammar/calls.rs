//! The grammar of tool calls as the model writes them, with arguments of the declared names and
//! types. Text arguments are written as they are, everything else as JSON.

use super::MAX_BYTES;
use super::language::{inline, quoted};
use crate::ApiError;
use crate::output::kinds::Parameters;
use crate::request::{Tool, ToolChoice};
use model::tokenizer::{TokenKind, Tokenizer};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Text up to where a value ends; the tag itself cannot be part of a value.
const TEXT_VALUE: &str = "text_value[lazy]: /(.|\\n)*<\\/parameter>/\n";
/// Words of a schema that say nothing of a value beyond what is enforced for text.
const TEXT_WORDS: [&str; 14] = [
    "$comment",
    "$ref",
    "anyOf",
    "const",
    "default",
    "deprecated",
    "description",
    "enum",
    "example",
    "examples",
    "nullable",
    "oneOf",
    "title",
    "type",
];

/// How far a call has come where the grammar begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// There is none yet, and need not be one.
    Nothing,
    /// `<tool_call>` and `<function` were written.
    Call,
    /// So was the name.
    Named,
}

/// How exact the values of arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// As their schemas say.
    Exact,
    /// Of their types.
    Typed,
}

/// The calls that an answer may have.
#[derive(Clone, Debug)]
pub(crate) struct Calls<'a> {
    tools: Vec<&'a Tool>,
    begun: Begun,
    /// Whether there may be more than one.
    several: bool,
    /// Whether an answer in a format may stand in place of them.
    answer: bool,
}

impl<'a> Calls<'a> {
    /// Those of a conversation, if there is something to enforce; `format` says whether an answer
    /// that is no call has a format.
    pub(crate) fn new(
        tools: &'a [Tool],
        choice: &ToolChoice,
        parallel: bool,
        format: bool,
    ) -> Option<Self> {
        let any_strict = tools.iter().any(Tool::is_strict);
        let (begun, named) = match choice {
            ToolChoice::None => return None,
            ToolChoice::Auto if !any_strict && !format || tools.is_empty() => return None,
            ToolChoice::Auto => (Begun::Nothing, None),
            ToolChoice::Required => (Begun::Call, None),
            ToolChoice::Function(name) => (Begun::Named, Some(name)),
        };
        let tools = tools.iter().filter(|tool| named.is_none_or(|name| tool.name == *name));
        let several = parallel && named.is_none();
        Some(Self { tools: tools.collect(), begun, several, answer: format })
    }

    /// Whether there is a call for sure.
    pub(crate) fn is_forced(&self) -> bool {
        self.begun != Begun::Nothing
    }

    /// Whether a schema must be enforced or refused.
    pub(super) fn is_strict(&self) -> bool {
        self.tools.iter().any(|tool| tool.is_strict())
    }

    /// The grammar in Lark.
    ///
    /// # Errors
    /// What a strict function asks for and cannot have.
    pub(super) fn text(&self, tokenizer: &Tokenizer, values: Values) -> Result<String, ApiError> {
        let tag = |name: &str| match tokenizer.token_id(name).and_then(|id| tokenizer.kind(id)) {
            Some(TokenKind::Control | TokenKind::UserDefined) => name.to_owned(),
            _ => quoted(name),
        };
        let (open, close) = (tag("<tool_call>"), tag("</tool_call>"));
        let mut out = String::from(TEXT_VALUE);
        let more = if self.several { "more*" } else { "" };
        let _ = match self.begun {
            Begun::Nothing if self.answer => writeln!(out, "start: @answer | first {more}"),
            Begun::Nothing => {
                let again = if self.several { "*" } else { "?" };
                writeln!(out, "start: PLAIN? (first PLAIN?){again}")
            }
            Begun::Call => writeln!(out, "start: call {more}"),
            Begun::Named => writeln!(out, "start: rest_0"),
        };
        let _ = writeln!(out, "PLAIN: /(.|\\n)+/ & ~/(.|\\n)*<tool_call>(.|\\n)*/");
        let _ = writeln!(out, "first: {open} \"\\n<function\" call");
        let _ = writeln!(out, "more: \"\\n\"? first");
        let names: Vec<String> = (0..self.tools.len()).map(|i| format!("call_{i}")).collect();
        let _ = writeln!(out, "call: {}", names.join(" | "));
        for (number, tool) in self.tools.iter().enumerate() {
            let name = quoted(&format!("={}>\n", tool.name));
            let _ = writeln!(out, "call_{number}: {name} rest_{number}");
            // What the reader of calls takes the types from.
            let parameters = Parameters::new(&tool.parameters);
            let arguments = Arguments { tool, parameters, number, values };
            let list = arguments.write(&mut out)?;
            let _ = writeln!(out, "rest_{number}: {list} \"</function>\\n\" {close}");
        }
        Ok(out)
    }
}

/// The arguments of a function.
struct Arguments<'a> {
    tool: &'a Tool,
    parameters: Parameters,
    number: usize,
    values: Values,
}

impl Arguments<'_> {
    /// Writes the rules of the arguments; how they follow each other.
    fn write(&self, out: &mut String) -> Result<String, ApiError> {
        let schema = &self.tool.parameters;
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let odd = ["$ref", "anyOf", "oneOf", "allOf", "patternProperties", "if", "not"];
        if let Some(word) = odd.iter().find(|word| schema.get(**word).is_some()) {
            if self.tool.is_strict() {
                return Err(self.refused(word, "parameters must be an object with properties"));
            }
            return Ok(self.any(out));
        }
        let names = schema.get("required").and_then(Value::as_array);
        let required = |name: &str| names.is_some_and(|names| names.iter().any(|n| n == name));
        let mut list = Vec::new();
        for (at, (name, property)) in properties.iter().enumerate() {
            if name.is_empty() || name.contains(['>', '<', '\n']) || name.trim() != name {
                return Err(self.refused(name, "a parameter cannot be called so"));
            }
            let rule = format!("p_{}_{at}", self.number);
            let value = self.value(name, property)?;
            let tag = quoted(&format!("<parameter={name}>\n"));
            let _ = writeln!(out, "{rule}: {tag} {value} \"\\n\"");
            list.push(if required(name) { rule } else { format!("{rule}?") });
            // Definitions are written for every argument that needs them.
            if out.len() > MAX_BYTES {
                return Err(self.refused(name, &format!("more than {MAX_BYTES} bytes")));
            }
        }
        Ok(list.join(" "))
    }

    /// Arguments of which nothing is known.
    fn any(&self, out: &mut String) -> String {
        let rule = format!("p_{}", self.number);
        let name = "/[^<>\\n ]{1,100}/";
        let _ = writeln!(out, "{rule}: \"<parameter=\" {name} \">\\n\" text_value \"\\n\"");
        format!("{rule}*")
    }

    /// The value of an argument and its end tag.
    fn value(&self, name: &str, schema: &Value) -> Result<String, ApiError> {
        let root = &self.tool.parameters;
        let kinds = self.parameters.kinds(name);
        if !kinds.may_be_text() {
            let schema = match self.values {
                Values::Exact => with_definitions(schema, root),
                Values::Typed => json!({ "type": kinds.names() }),
            };
            let json = inline(&schema).map_err(|what| self.refused(name, &what))?;
            return Ok(format!("{json} \"\\n</parameter>\""));
        }
        let resolved = resolve(schema, root);
        if let Some(values) = resolved.get("enum").and_then(Value::as_array) {
            let one =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let values: Vec<String> = values.iter().map(|value| quoted(&one(value))).collect();
            return Ok(format!("({}) \"\\n</parameter>\"", values.join(" | ")));
        }
        if let Some(value) = resolved.get("const").and_then(Value::as_str) {
            return Ok(format!("{} \"\\n</parameter>\"", quoted(value)));
        }
        let words = resolved.as_object().map(Map::keys).into_iter().flatten();
        if self.tool.is_strict()
            && kinds.is_text()
            && let Some(word) = words.into_iter().find(|word| !TEXT_WORDS.contains(&word.as_str()))
        {
            let place = format!("properties.{name}.{word}");
            return Err(self.refused(&place, "this is not enforced for text"));
        }
        Ok("text_value".to_owned())
    }

    fn refused(&self, place: &str, why: &str) -> ApiError {
        let name = &self.tool.name;
        let message = format!("the parameters of {name:?} cannot be enforced: {place}: {why}");
        ApiError::unsupported("tools", message)
    }
}

/// What a schema that is a reference stands for.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| root.pointer(target.strip_prefix('#')?));
    target.unwrap_or(schema)
}

/// A part of a schema as one that stands alone.
fn with_definitions(schema: &Value, root: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(key) {
                map.insert(key.to_owned(), definitions.clone());
            }
        }
    }
    schema
}
