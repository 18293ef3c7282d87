//! What is asked for, apart from how a client wrote it. Every wire format is read into this.

use crate::ApiError;
use engine::SamplingParams;
use serde_json::{Map, Value};

/// A request to generate one or more answers.
#[derive(Clone, Debug)]
pub struct Generate {
    /// What the answers follow.
    pub prompt: Prompt,
    /// Answers; each draws with a seed of its own.
    pub choices: usize,
    /// Tokens of an answer at most; `None` is until its end or the limit of a request.
    pub max_tokens: Option<usize>,
    /// Tokens of an answer at least.
    pub min_tokens: usize,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Strings that end an answer.
    pub stop: Vec<String>,
    /// Likeliest tokens to tell in each place, if tokens are to be told.
    pub log_probs: Option<usize>,
    /// Tokens of thinking at most.
    pub reasoning_budget: Option<usize>,
    /// Tokens of a circle at which an answer ends; `None` is as the server is set.
    pub loop_tokens: Option<usize>,
    /// What an answer must look like.
    pub format: Format,
    /// Whether the prompt's text comes first in the answer.
    pub echo: bool,
}

impl Generate {
    /// The field whose rule answers are held to, if they are held to one.
    pub(crate) fn ruled_by(&self) -> &str {
        let is_call = matches!(&self.prompt, Prompt::Chat(chat) if chat.tool_choice.is_forced());
        match &self.format {
            Format::Rule { field, .. } if !is_call => field,
            _ => "tools",
        }
    }
}

/// What an answer follows.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// A conversation.
    Chat(Chat),
    /// A text, as it is.
    Text(String),
    /// Tokens, as they are.
    Tokens(Vec<u32>),
}

/// A conversation that is to be answered.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// Messages as chat templates expect them: roles system, user, assistant and tool; content is
    /// text or a list of texts; arguments of calls are objects.
    pub messages: Vec<Value>,
    /// Functions that may be called.
    pub tools: Vec<Tool>,
    /// Whether they must be.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have several calls.
    pub parallel_calls: bool,
    /// How long to think.
    pub effort: Option<Effort>,
    /// More variables of the template.
    pub variables: Map<String, Value>,
}

/// A function that may be called.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// All of it, as templates expect it: `{"type": "function", "function": {...}}`.
    pub definition: Value,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl Tool {
    /// Whether arguments must be as the schema says.
    pub fn is_strict(&self) -> bool {
        self.definition.pointer("/function/strict") == Some(&Value::Bool(true))
    }
}

/// Whether functions are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// No; the model is not told of them.
    None,
    /// As the model sees fit.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// This one, first of all.
    Function(String),
}

impl ToolChoice {
    /// Whether there is a call for sure.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, ToolChoice::Required | ToolChoice::Function(_))
    }
}

/// How long to think before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Not at all.
    None,
    /// Briefly.
    Low,
    /// For a while.
    Medium,
    /// Long.
    High,
    /// As long as it takes.
    ExtraHigh,
}

impl Effort {
    /// All of them by name.
    pub const NAMES: [(&'static str, Effort); 5] = [
        ("none", Effort::None),
        ("low", Effort::Low),
        ("medium", Effort::Medium),
        ("high", Effort::High),
        ("xhigh", Effort::ExtraHigh),
    ];

    /// The effort that the field `param` names; `minimal` is the least that there is, where it is
    /// not to be none.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(name: &str, param: &str) -> Result<Effort, ApiError> {
        let name = if name == "minimal" { "low" } else { name };
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, effort)| *effort).ok_or_else(|| {
            let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            let message = format!("{param} must be minimal or one of {}", names.join(", "));
            ApiError::field(param, message)
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, effort)| *effort == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What an answer must look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Any text.
    #[default]
    Text,
    /// A rule that is enforced while the answer is written, behind its thinking.
    Rule {
        /// The rule.
        rule: Rule,
        /// The field of the request that holds it, for messages.
        field: String,
    },
}

/// A rule for the text of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// JSON that this schema allows.
    Schema(Value),
    /// What this regular expression matches as a whole.
    Regex(String),
    /// What this grammar allows, in Lark as llguidance has it.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
}
