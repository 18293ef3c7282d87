//! Rules in llguidance's language, and its complaints in ours.

use super::{MAX_BYTES, MAX_NESTING};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value, json};

/// Blanks that may be written between the parts of a JSON text: without an end to them, a model
/// may write nothing else.
const BLANKS: &str = r"[\x20\x09]{1,2}|\r?\n[\x20\x09]{0,60}";
const SETTINGS: &str = "x-guidance";
/// Characters of a message of llguidance that are told.
const MAX_TOLD: usize = 400;

/// What is to be compiled: grammars, of which the first may name the others.
#[derive(Clone)]
pub(super) struct Source(Vec<GrammarWithLexer>);

impl Source {
    /// JSON that a schema allows.
    pub(super) fn schema(schema: &Value) -> Result<Self, String> {
        Ok(Self(vec![GrammarWithLexer::from_json_schema(with_settings(schema)?)]))
    }

    /// Text that a regular expression matches as a whole.
    pub(super) fn regex(regex: &str) -> Self {
        Self(vec![GrammarWithLexer::from_regex(regex)])
    }

    /// Text of a Lark grammar.
    pub(super) fn lark(lark: &str) -> Result<Self, String> {
        if lark.contains("::=") {
            return Err("this looks like GBNF; grammars are to be written in Lark".to_owned());
        }
        Ok(Self(vec![GrammarWithLexer::from_lark(lark.to_owned())]))
    }

    /// One of several texts.
    pub(super) fn choice(texts: &[String]) -> Result<Self, String> {
        if texts.is_empty() {
            return Err("there must be at least one text".to_owned());
        }
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        Self::lark(&format!("start: {}", texts.join(" | ")))
    }

    /// Calls, and the answer that may stand in place of them, which they name `@answer`.
    pub(super) fn calls(lark: String, answer: Option<Source>) -> Self {
        let mut all = vec![GrammarWithLexer::from_lark(lark)];
        for mut grammar in answer.into_iter().flat_map(|answer| answer.0) {
            grammar.name = Some("answer".to_owned());
            all.push(grammar);
        }
        Self(all)
    }

    pub(super) fn grammar(&self) -> TopLevelGrammar {
        TopLevelGrammar { grammars: self.0.clone(), max_tokens: None }
    }

    /// That it is not too large, nor too deep.
    pub(super) fn check(&self) -> Result<(), String> {
        for GrammarWithLexer { json_schema, lark_grammar, .. } in &self.0 {
            let text = match (json_schema, lark_grammar) {
                (Some(schema), _) => schema.to_string(),
                (None, lark) => lark.clone().unwrap_or_default(),
            };
            if text.len() > MAX_BYTES {
                let bytes = text.len();
                return Err(format!("it has {bytes} bytes, at most {MAX_BYTES} may be"));
            }
            if nesting(&text) > MAX_NESTING {
                return Err(format!("more than {MAX_NESTING} brackets are open at once"));
            }
        }
        Ok(())
    }
}

/// A text as Lark writes it.
pub(super) fn quoted(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    // JSON may leave this one as it is, Lark may not.
    quoted.replace('\u{7f}', "\\u007f")
}

/// JSON of a schema as part of a Lark grammar.
pub(super) fn inline(schema: &Value) -> Result<String, String> {
    Ok(format!("%json {}", with_settings(schema)?))
}

/// A schema with our settings.
fn with_settings(schema: &Value) -> Result<Value, String> {
    let mut map = match schema {
        Value::Object(map) => map.clone(),
        Value::Bool(true) => Map::new(),
        _ => return Err("a schema must be an object".to_owned()),
    };
    if map.contains_key(SETTINGS) {
        return Err(format!("{SETTINGS} is not supported here"));
    }
    map.insert(SETTINGS.to_owned(), json!({ "whitespace_pattern": BLANKS }));
    Ok(Value::Object(map))
}

/// Brackets that are open at once, those within quotes included: whether they are is for a parser
/// to say, and this is to protect it.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// A complaint of llguidance without its mark for details that are not asked for.
pub(super) fn told(what: &str) -> String {
    what.replace("<non-verbose/>", "").trim().chars().take(MAX_TOLD).collect()
}

/// A complaint about a source, with the place in a schema where that can be told.
pub(super) fn explain(source: &Source, what: &str) -> String {
    // Such messages are about the inside of a program.
    let what = match what.trim_start() {
        panic if panic.starts_with("panic") => "it is beyond what can be compiled".to_owned(),
        nothing if nothing.starts_with("NoExtension") => "it allows no text".to_owned(),
        what => told(what),
    };
    let schema = source.0.first().and_then(|grammar| grammar.json_schema.as_ref());
    let keys = what.split_once("Unimplemented keys: [").and_then(|(_, rest)| rest.split_once(']'));
    let key = keys.and_then(|(keys, _)| keys.split('"').nth(1));
    match schema.zip(key).and_then(|(schema, key)| Some((key, place(schema, key)?))) {
        Some((key, place)) => format!("{key:?} at {place} is not supported in schemas"),
        None => what,
    }
}

/// The path of the first object that has a key, as in `#/properties/x`.
fn place(value: &Value, key: &str) -> Option<String> {
    fn within(value: &Value, key: &str, path: &str) -> Option<String> {
        match value {
            Value::Object(map) if map.contains_key(key) && !path.ends_with("/properties") => {
                Some(path.to_owned())
            }
            Value::Object(map) => {
                map.iter().find_map(|(name, value)| within(value, key, &format!("{path}/{name}")))
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(at, value)| within(value, key, &format!("{path}/{at}")))
            }
            _ => None,
        }
    }
    within(value, key, "#")
}
