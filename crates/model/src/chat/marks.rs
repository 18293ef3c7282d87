//! Private-use characters that stand for tokens while a template runs.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::{RenderInput, TemplateError};
use crate::tokenizer::Tokenizer;

/// The supplementary private-use planes, without their last two noncharacters each.
const PRIVATE: [Range<u32>; 2] = [0xF_0000..0xF_FFFE, 0x10_0000..0x10_FFFE];

/// Which character stands for which token.
#[derive(Debug)]
pub(super) struct Marks {
    used: HashSet<char>,
    tokens: Vec<(char, u32)>,
}

impl Marks {
    /// Without tokens; characters of the template and the conversation are never chosen.
    pub(super) fn avoiding(source: &str, input: &RenderInput<'_>) -> Marks {
        let mut marks = Marks { used: HashSet::new(), tokens: Vec::new() };
        marks.avoid(source);
        let values = input.messages.iter().chain(input.tools.unwrap_or_default());
        for value in values.chain(input.kwargs.values()) {
            marks.avoid_value(value);
        }
        marks
    }

    fn avoid(&mut self, text: &str) {
        self.used.extend(text.chars().filter(|&c| u32::from(c) >= PRIVATE[0].start));
    }

    fn avoid_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.avoid(text),
            Value::Array(items) => items.iter().for_each(|item| self.avoid_value(item)),
            Value::Object(map) => map.iter().for_each(|(key, item)| {
                self.avoid(key);
                self.avoid_value(item);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The token that a character stands for.
    pub(super) fn id(&self, mark: char) -> Option<u32> {
        self.tokens.iter().find(|(c, _)| *c == mark).map(|&(_, id)| id)
    }

    fn mark_of(&mut self, id: u32) -> Result<char, TemplateError> {
        if let Some(&(mark, _)) = self.tokens.iter().find(|(_, known)| *known == id) {
            return Ok(mark);
        }
        let mut free = PRIVATE.into_iter().flatten().filter_map(char::from_u32);
        let mark = free.find(|c| !self.used.contains(c)).ok_or(TemplateError::NoFreeMark)?;
        self.used.insert(mark);
        self.tokens.push((mark, id));
        Ok(mark)
    }

    /// A text with each token in it replaced by its mark.
    pub(super) fn replace(
        &mut self,
        text: &str,
        tokenizer: &Tokenizer,
    ) -> Result<String, TemplateError> {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((range, id)) = tokenizer.find_added(rest) {
            replaced.push_str(&rest[..range.start]);
            replaced.push(self.mark_of(id)?);
            rest = &rest[range.end..];
        }
        replaced.push_str(rest);
        Ok(replaced)
    }
}
