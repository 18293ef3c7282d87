//! The chat format of a model file: its own Jinja template, and the split of what the model then
//! writes into reasoning and answer (docs/qwen4exp.md, section 12).
//!
//! Templates come from strangers and so do messages. A template runs with a budget of work, depth
//! and output; message text never becomes a control token, see [`ChatTemplate::render_tokens`].

mod clock;
mod engine;
mod error;
mod json;
mod literals;
mod marks;
mod python;
mod thinking;

use serde_json::{Map, Value};

pub use error::TemplateError;
pub use thinking::{Split, Thinking, ThinkingSplitter};

use crate::tokenizer::{SpecialTokens, Tokenizer};
use marks::Marks;

/// Longest template source in bytes; the known ones have about 10,000.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// What a template is rendered with. The values are passed on as they are.
#[derive(Debug, Clone, Default)]
pub struct RenderInput<'a> {
    /// The conversation: objects with `role`, `content` and so on. The `arguments` of a tool call
    /// must be an object; the official template refuses JSON in a string.
    pub messages: &'a [Value],
    /// Tool definitions.
    pub tools: Option<&'a [Value]>,
    /// Further variables: `enable_thinking`, `reasoning_effort`, `preserve_thinking`,
    /// `add_vision_id` and whatever else the template reads.
    pub kwargs: Map<String, Value>,
    /// Whether the text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
}

/// A chat template, checked for syntax.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    /// `bos_token` and the like.
    variables: Map<String, Value>,
}

impl ChatTemplate {
    /// From the text of `tokenizer.chat_template`.
    ///
    /// # Errors
    /// [`TemplateError::SourceTooLong`] and [`TemplateError::Syntax`].
    pub fn new(source: impl Into<String>) -> Result<ChatTemplate, TemplateError> {
        let source = source.into();
        let (len, most) = (source.len(), MAX_SOURCE_BYTES);
        if len > most {
            return Err(TemplateError::SourceTooLong { len, most });
        }
        engine::check(&source)?;
        Ok(ChatTemplate { source, variables: Map::new() })
    }

    /// Sets the variables `bos_token`, `eos_token` and `pad_token` to the texts of these tokens.
    /// The official template reads none of them.
    #[must_use]
    pub fn with_token_variables(mut self, tokenizer: &Tokenizer) -> ChatTemplate {
        let ids = [
            ("bos_token", tokenizer.bos_id()),
            ("eos_token", tokenizer.eos_id()),
            ("pad_token", tokenizer.padding_id()),
        ];
        for (name, id) in ids {
            if let Some(text) = id.and_then(|id| tokenizer.piece(id)) {
                self.variables.insert(name.to_owned(), Value::String(text));
            }
        }
        self
    }

    /// The template's text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation to text. To get ids, use [`ChatTemplate::render_tokens`]: encoding
    /// this text with [`SpecialTokens::Parse`] would let a message forge turns.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] with the template's own words for a conversation it refuses;
    /// otherwise what went wrong, or which budget ran out.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, TemplateError> {
        engine::render(&self.source, &self.variables, input)
    }

    /// Renders a conversation to ids in which control and user-defined tokens come from the
    /// template alone. Wherever a message, tool or variable spells one out, it is encoded as
    /// text; everything else is encoded as if the rendered text had been.
    ///
    /// Before rendering, each such token in the template's text and string constants is replaced
    /// by a private-use character that occurs nowhere else; afterwards these characters become
    /// ids and the stretches between them are encoded with [`SpecialTokens::AsText`]. Thus even a
    /// token of which the template writes one half and a message the other stays text.
    ///
    /// Constants with which a template inspects messages, as in `startswith('<tool_response>')`,
    /// `'</think>' in content`, `split('</think>')` or `== '<think>'`, are left alone, so that it
    /// still finds them. Not recognised, and so never found in messages, are constants that reach
    /// such a place by way of a variable. A token that a template pieces together from several
    /// constants becomes text.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and [`TemplateError::NoFreeMark`].
    pub fn render_tokens(
        &self,
        input: &RenderInput<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<u32>, TemplateError> {
        let mut marks = Marks::avoiding(&self.source, input);
        let source = mark_source(&self.source, &mut marks, tokenizer)?;
        let mut variables = self.variables.clone();
        for value in variables.values_mut() {
            if let Value::String(text) = value {
                *text = marks.replace(text, tokenizer)?;
            }
        }
        let text = engine::render(&source, &variables, input)?;
        encode_marked(&text, &marks, tokenizer)
    }
}

/// The source with every token that it writes replaced by its mark.
fn mark_source(
    source: &str,
    marks: &mut Marks,
    tokenizer: &Tokenizer,
) -> Result<String, TemplateError> {
    let mut marked = String::with_capacity(source.len());
    let mut done = 0;
    for part in literals::written(source) {
        marked.push_str(&source[done..part.start]);
        marked.push_str(&marks.replace(&source[part.clone()], tokenizer)?);
        done = part.end;
    }
    marked.push_str(&source[done..]);
    Ok(marked)
}

fn encode_marked(
    text: &str,
    marks: &Marks,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, TemplateError> {
    let mut ids = Vec::with_capacity(text.len() / 4 + 1);
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if let Some(id) = marks.id(c) {
            ids.extend(tokenizer.encode(&text[start..at], SpecialTokens::AsText)?);
            ids.push(id);
            start = at + c.len_utf8();
        }
    }
    ids.extend(tokenizer.encode(&text[start..], SpecialTokens::AsText)?);
    Ok(ids)
}
