//! Writes the arguments of a call as JSON, in fragments.

use super::kinds::{Kinds, Parameters};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// The arguments of a call in the making.
#[derive(Debug)]
pub(super) struct Arguments {
    parameters: Option<Arc<Parameters>>,
    keys: HashSet<String>,
    current: Current,
}

/// The value that is being written.
#[derive(Debug)]
enum Current {
    /// None.
    Nothing,
    /// One of which nothing was seen yet.
    Fresh(How),
    Begun(How),
}

/// How a value is written.
#[derive(Debug)]
enum How {
    /// As a string, piece by piece.
    Text,
    /// When it is complete.
    Whole(Kinds, String),
    /// Not at all: the key was there before.
    Skipped,
}

impl Arguments {
    /// None yet; without parameters nothing is known of their types.
    pub(super) fn new(parameters: Option<Arc<Parameters>>) -> Self {
        Self { parameters, keys: HashSet::new(), current: Current::Nothing }
    }

    /// Begins an argument; the JSON up to its value.
    pub(super) fn key(&mut self, key: &str) -> String {
        if !self.keys.insert(key.to_owned()) {
            self.current = Current::Fresh(How::Skipped);
            return String::new();
        }
        let kinds = self.parameters.as_ref().map_or(Kinds::ANY, |known| known.kinds(key));
        let (how, quote) = match kinds.is_text() {
            true => (How::Text, "\""),
            false => (How::Whole(kinds, String::new()), ""),
        };
        self.current = Current::Fresh(how);
        let comma = if self.keys.len() == 1 { "{" } else { "," };
        format!("{comma}{}:{quote}", Value::from(key))
    }

    /// Whether nothing of the value was seen yet.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.current, Current::Fresh(_))
    }

    /// Something of the value was seen.
    pub(super) fn begin_value(&mut self) {
        if let Current::Fresh(how) = std::mem::replace(&mut self.current, Current::Nothing) {
            self.current = Current::Begun(how);
        }
    }

    /// More of the value; the JSON for it that is certain.
    pub(super) fn value(&mut self, text: &str) -> String {
        match &mut self.current {
            Current::Begun(How::Text) => escaped(text),
            Current::Begun(How::Whole(_, whole)) => {
                whole.push_str(text);
                String::new()
            }
            _ => String::new(),
        }
    }

    /// The JSON that ends the value.
    pub(super) fn end_value(&mut self) -> String {
        match std::mem::replace(&mut self.current, Current::Nothing) {
            Current::Begun(How::Text) => "\"".to_owned(),
            Current::Begun(How::Whole(kinds, whole)) => kinds.read(&whole),
            _ => String::new(),
        }
    }

    /// The JSON that ends the arguments.
    pub(super) fn end(self) -> String {
        if self.keys.is_empty() { "{}".to_owned() } else { "}".to_owned() }
    }
}

/// Text as it stands inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
