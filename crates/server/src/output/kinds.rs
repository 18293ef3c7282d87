//! Which JSON types a schema allows for a value, as far as reading a tool call needs to know: the
//! model writes strings as they are and everything else as JSON.

use serde_json::Value;
use std::collections::HashMap;

/// How far references and nested choices are followed.
const MAX_DEPTH: usize = 8;

/// Parts of a function's schema that are looked at: references to references grow without an end.
/// Where there are more, anything may stand.
const MAX_WORK: usize = 10_000;
/// Bytes of a reference that are followed in the time of one part.
const REFERENCE_BYTES: usize = 16;

/// JSON types that a value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

const STRING: u8 = 1;
const NUMBER: u8 = 2;
const BOOLEAN: u8 = 4;
const NULL: u8 = 8;
const ARRAY: u8 = 16;
const OBJECT: u8 = 32;

impl Kinds {
    const NONE: Kinds = Kinds(0);
    /// Where nothing is said.
    pub const ANY: Kinds = Kinds(STRING | NUMBER | BOOLEAN | NULL | ARRAY | OBJECT);

    /// What `schema` allows; `root` is the schema that its references point into.
    pub fn of(schema: &Value, root: &Value) -> Kinds {
        Search { root, work: MAX_WORK }.within(schema, MAX_DEPTH)
    }

    fn named(types: &Value) -> Kinds {
        let one = |name: &Value| match name.as_str() {
            Some("string") => Kinds(STRING),
            Some("number" | "integer") => Kinds(NUMBER),
            Some("boolean") => Kinds(BOOLEAN),
            Some("null") => Kinds(NULL),
            Some("array") => Kinds(ARRAY),
            Some("object") => Kinds(OBJECT),
            _ => Self::ANY,
        };
        match types {
            Value::Array(names) => names.iter().map(one).fold(Self::NONE, Self::or),
            name => one(name),
        }
    }

    /// The type of a value.
    pub fn of_value(value: &Value) -> Kinds {
        Kinds(match value {
            Value::Null => NULL,
            Value::Bool(_) => BOOLEAN,
            Value::Number(_) => NUMBER,
            Value::String(_) => STRING,
            Value::Array(_) => ARRAY,
            Value::Object(_) => OBJECT,
        })
    }

    fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// Whether the value is text and nothing else, so that it need not be complete to be read.
    pub fn is_text(self) -> bool {
        self == Kinds(STRING)
    }

    /// Whether the value may be text.
    pub(crate) fn may_be_text(self) -> bool {
        self.0 & STRING != 0
    }

    /// The types by name.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let all = [
            (STRING, "string"),
            (NUMBER, "number"),
            (BOOLEAN, "boolean"),
            (NULL, "null"),
            (ARRAY, "array"),
            (OBJECT, "object"),
        ];
        all.into_iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| name).collect()
    }

    /// The JSON of a complete value that the model wrote as `text`. What is valid JSON of another
    /// allowed type than text is that; all else is a string, also where none is allowed: it is what
    /// the model wrote, and whoever called for it can say what is wrong.
    pub fn read(self, text: &str) -> String {
        let trimmed = text.trim();
        let value: Option<Value> = serde_json::from_str(trimmed).ok();
        match value.or_else(|| self.python(trimmed)) {
            // Words of Python are the only ones that are not JSON as they stand.
            Some(word @ (Value::Bool(_) | Value::Null)) if self.allows(&word) => word.to_string(),
            // As it stands: numbers made values and back might be rounded.
            Some(value) if !value.is_string() && self.allows(&value) => trimmed.to_owned(),
            _ => Value::from(text).to_string(),
        }
    }

    fn allows(self, value: &Value) -> bool {
        self.0 & Self::of_value(value).0 != 0
    }

    /// Words that models write in place of JSON's, where text is not allowed.
    fn python(self, text: &str) -> Option<Value> {
        match text {
            _ if self.0 & STRING != 0 => None,
            "True" | "TRUE" => Some(Value::Bool(true)),
            "False" | "FALSE" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => None,
        }
    }
}

/// A walk through a schema, of limited length.
struct Search<'a> {
    root: &'a Value,
    /// Parts that may still be looked at.
    work: usize,
}

impl Search<'_> {
    /// Pays for some parts; whether that was possible.
    fn pay(&mut self, parts: usize) -> bool {
        let left = self.work.checked_sub(parts);
        self.work = left.unwrap_or(0);
        left.is_some()
    }

    fn within(&mut self, schema: &Value, depth: usize) -> Kinds {
        let Value::Object(map) = schema else { return Kinds::ANY };
        let Some(depth) = depth.checked_sub(1).filter(|_| self.pay(1)) else { return Kinds::ANY };
        let mut found = Kinds::ANY;
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            found = found.and(self.referred(target, depth));
        }
        if let Some(types) = map.get("type") {
            let count = types.as_array().map_or(1, Vec::len);
            found = if self.pay(count) { found.and(Kinds::named(types)) } else { found };
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            let of_values = || values.iter().map(Kinds::of_value).fold(Kinds::NONE, Kinds::or);
            found = if self.pay(values.len()) { found.and(of_values()) } else { found };
        }
        if let Some(value) = map.get("const") {
            found = found.and(Kinds::of_value(value));
        }
        for key in ["anyOf", "oneOf"] {
            let Some(Value::Array(cases)) = map.get(key) else { continue };
            if self.pay(cases.len()) {
                let cases = cases.iter().map(|case| self.within(case, depth));
                found = found.and(cases.fold(Kinds::NONE, Kinds::or));
            }
        }
        if let Some(Value::Array(parts)) = map.get("allOf")
            && self.pay(parts.len())
        {
            let parts = parts.iter().map(|part| self.within(part, depth));
            found = parts.fold(found, Kinds::and);
        }
        // A schema that nothing satisfies says nothing about how its value is written.
        if found == Kinds::NONE { Kinds::ANY } else { found }
    }

    fn referred(&mut self, target: &str, depth: usize) -> Kinds {
        if !self.pay(target.len() / REFERENCE_BYTES) {
            return Kinds::ANY;
        }
        let target = target.strip_prefix('#').and_then(|path| self.root.pointer(path));
        target.map_or(Kinds::ANY, |it| self.within(it, depth))
    }
}

/// The types of a function's arguments.
#[derive(Clone, Debug)]
pub struct Parameters {
    named: HashMap<String, Kinds>,
    others: Kinds,
}

impl Parameters {
    /// Of the JSON schema of a function's `parameters`.
    pub fn new(schema: &Value) -> Parameters {
        let mut search = Search { root: schema, work: MAX_WORK };
        let others = schema.get("additionalProperties");
        let others = others.map_or(Kinds::ANY, |schema| search.within(schema, MAX_DEPTH));
        let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let one =
            |(name, schema): (&String, &Value)| (name.clone(), search.within(schema, MAX_DEPTH));
        Parameters { named: named.map(one).collect(), others }
    }

    /// The types of an argument.
    pub fn kinds(&self, name: &str) -> Kinds {
        self.named.get(name).copied().unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: &Value, text: &str) -> String {
        Kinds::of(schema, schema).read(text)
    }

    #[test]
    fn fault_088_text_stays_text_in_string_fields() {
        for text in ["null", "true", "12", "{\"a\": 1}", "[1]", " x ", "", "\"quoted\"", "1e5"] {
            let expected = Value::from(text).to_string();
            assert_eq!(read(&json!({"type": "string"}), text), expected);
            assert_eq!(read(&json!({"enum": ["a", "b"]}), text), expected);
            assert_eq!(
                read(&json!({"anyOf": [{"type": "string"}, {"const": "x"}]}), text),
                expected
            );
        }
    }

    #[test]
    fn fault_088_other_types_are_json() {
        let cases = [
            (json!({"type": "integer"}), "12", "12"),
            (
                json!({"type": "integer"}),
                " 123456789012345678901234567890 ",
                "123456789012345678901234567890",
            ),
            (json!({"type": "number"}), "1.50", "1.50"),
            (json!({"type": "integer"}), "twelve", "\"twelve\""),
            (json!({"type": "integer"}), "\"12\"", "\"\\\"12\\\"\""),
            (json!({"type": "boolean"}), "True", "true"),
            (json!({"type": "boolean"}), "false\n", "false"),
            (json!({"type": "array"}), "[1,\n 2]", "[1,\n 2]"),
            (
                json!({"type": "object"}),
                " {\"b\": 1e400, \"a\": 1.10}",
                "\" {\\\"b\\\": 1e400, \\\"a\\\": 1.10}\"",
            ),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "null", "null"),
            (json!({"type": ["string", "null"]}), "null", "null"),
            (json!({"type": ["string", "null"]}), "nil", "\"nil\""),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), "7", "7"),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), "7 up", "\"7 up\""),
            (json!({}), "{\"a\":1}", "{\"a\":1}"),
            (json!({}), "plain", "\"plain\""),
            (json!({"$ref": "#/x"}), "5", "5"),
        ];
        for (schema, text, expected) in cases {
            assert_eq!(read(&schema, text), expected, "{schema} {text}");
        }
    }

    #[test]
    fn references_that_multiply_are_followed_for_a_while_only() {
        let to = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let many = |name: &str| json!({"anyOf": vec![to(name); 2000]});
        let long = json!({"$ref": format!("#/$defs/text{}", "/x".repeat(1 << 13))});
        let schema = json!({
            "properties": {"first": to("text"), "wide": many("a"), "last": to("text")},
            "$defs": {
                "a": {"anyOf": vec![to("a"); 2000], "allOf": vec![long; 200]},
                "text": {"type": "string"},
            },
            "additionalProperties": to("a"),
        });
        let started = std::time::Instant::now();
        let parameters = Parameters::new(&schema);
        for name in ["wide", "last", "other"] {
            assert_eq!(parameters.kinds(name), Kinds::ANY);
        }
        // Unlimited it is 2000 to the power of 8; this takes milliseconds.
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
        assert!(
            Parameters::new(&json!({"properties": {"a": {"type": "string"}}})).kinds("a").is_text()
        );
    }

    #[test]
    fn arguments_are_found_by_name_through_references() {
        let schema = json!({
            "properties": {"path": {"$ref": "#/$defs/p"}, "loop": {"$ref": "#/properties/loop"}},
            "$defs": {"p": {"type": "string"}},
            "additionalProperties": {"type": "integer"},
        });
        let parameters = Parameters::new(&schema);
        assert!(parameters.kinds("path").is_text());
        assert_eq!(parameters.kinds("loop"), Kinds::ANY);
        assert_eq!(parameters.kinds("other"), Kinds(NUMBER));
        assert_eq!(Parameters::new(&Value::Null).kinds("x"), Kinds::ANY);
    }
}
