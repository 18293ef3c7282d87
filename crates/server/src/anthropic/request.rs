//! `/v1/messages`: the request.

use super::{messages, tools};
use crate::ApiError;
use crate::fields::{Fields, wrong_kind};
use crate::request::{Chat, Effort, Format, Generate, Prompt, Rule, ToolChoice};
use crate::service::Service;
use crate::settings;
use serde_json::{Map, Value};

/// Fields that change nothing about an answer: accounts, caches, and what other servers do.
const HARMLESS: [&str; 8] = [
    "metadata",
    "service_tier",
    "cache_control",
    "inference_geo",
    "speed",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
];

/// A request as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) generate: Generate,
    pub(super) delivery: Delivery,
    pub(super) thoughts: Thoughts,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Stream,
}

/// Whether thinking is written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thoughts {
    #[default]
    Shown,
    /// Blocks of thinking are there, and empty.
    Omitted,
}

/// What `thinking` says.
#[derive(Debug, Default)]
struct Thinking {
    is_on: bool,
    budget: Option<usize>,
    thoughts: Thoughts,
}

/// Reads a request.
pub(super) fn read(mut fields: Fields, service: &Service) -> Result<Read, ApiError> {
    settings::model(&mut fields, service)?;
    let limits = &service.limits;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let delivery = if stream { Delivery::Stream } else { Delivery::Whole };
    let thinking = thinking(&mut fields)?;
    let (wanted, format) = output_config(&mut fields)?;
    let effort = if thinking.is_on { wanted } else { Some(Effort::None) };
    let system = fields.value("system");
    let messages = messages::messages(system, fields.required("messages")?, limits.messages)?;
    let tools = tools::tools(fields.array("tools")?.unwrap_or_default(), limits.tools)?;
    let choice = tools::choice(fields.value("tool_choice"), &tools)?;
    let (tool_choice, parallel_calls): (ToolChoice, bool) = choice;
    let variables = Map::new();
    let chat = Chat { messages, tools, tool_choice, parallel_calls, effort, variables };
    let generate = Generate {
        prompt: Prompt::Chat(chat),
        choices: 1,
        max_tokens: fields.count("max_tokens", usize::MAX)?,
        min_tokens: 0,
        sampling: settings::sampling(&mut fields, service)?,
        stop: settings::stop(&mut fields, "stop_sequences", limits)?,
        log_probs: None,
        reasoning_budget: thinking.budget,
        loop_tokens: fields.count("repetition_stop", usize::MAX)?,
        format,
        echo: false,
    };
    context_management(&mut fields)?;
    fields.ignore(&HARMLESS);
    fields.finish()?;
    Ok(Read { generate, delivery, thoughts: thinking.thoughts })
}

fn thinking(fields: &mut Fields) -> Result<Thinking, ApiError> {
    const NAME: &str = "thinking";
    let Some(value) = fields.value(NAME) else { return Ok(Thinking::default()) };
    let mut fields = Fields::of(value, NAME)?;
    let kind = fields.text("type")?.unwrap_or_default();
    let budget = match kind.as_str() {
        "disabled" => {
            fields.finish()?;
            return Ok(Thinking::default());
        }
        "adaptive" => None,
        "enabled" => {
            let name = fields.name("budget_tokens");
            let budget = fields.count("budget_tokens", usize::MAX)?;
            let missing = || ApiError::field(&name, format!("the field {name} is missing"));
            Some(budget.ok_or_else(missing)?)
        }
        _ => {
            let message = "thinking.type must be enabled, adaptive or disabled";
            return Err(ApiError::field("thinking.type", message));
        }
    };
    let thoughts = match fields.text("display")?.as_deref() {
        None | Some("summarized") => Thoughts::Shown,
        Some("omitted") => Thoughts::Omitted,
        Some(_) => {
            let message = "thinking.display must be summarized or omitted";
            return Err(ApiError::field("thinking.display", message));
        }
    };
    fields.finish()?;
    Ok(Thinking { is_on: true, budget, thoughts })
}

/// How long to think, where there is thinking, and what the answer must look like.
fn output_config(fields: &mut Fields) -> Result<(Option<Effort>, Format), ApiError> {
    const NAME: &str = "output_config";
    let Some(value) = fields.value(NAME) else { return Ok((None, Format::Text)) };
    let mut fields = Fields::of(value, NAME)?;
    let effort = match fields.text("effort")?.as_deref() {
        None => None,
        Some("low") => Some(Effort::Low),
        Some("medium") => Some(Effort::Medium),
        Some("high") => Some(Effort::High),
        Some("xhigh" | "max") => Some(Effort::ExtraHigh),
        Some(_) => {
            let message = "output_config.effort must be low, medium, high, xhigh or max";
            return Err(ApiError::field("output_config.effort", message));
        }
    };
    let format = fields.value("format").map_or(Ok(Format::Text), format)?;
    fields.finish()?;
    Ok((effort, format))
}

/// A format of answers; there is but one kind.
fn format(value: Value) -> Result<Format, ApiError> {
    const NAME: &str = "output_config.format";
    let mut fields = Fields::of(value, NAME)?;
    let name = fields.name("type");
    if fields.text("type")?.as_deref() != Some("json_schema") {
        return Err(ApiError::unsupported(&name, format!("{name} must be json_schema")));
    }
    let field = fields.name("schema");
    let schema = fields.required("schema")?;
    fields.finish()?;
    if !schema.is_object() {
        return Err(wrong_kind(&field, "a JSON schema", &schema));
    }
    Ok(Format::Rule { rule: Rule::Schema(schema), field })
}

/// All that is done here is to keep everything, which is what some agents ask for.
fn context_management(fields: &mut Fields) -> Result<(), ApiError> {
    const NAME: &str = "context_management";
    let Some(value) = fields.value(NAME) else { return Ok(()) };
    let edits = Fields::of(value, NAME)?.array("edits")?.unwrap_or_default();
    if edits.iter().all(|edit| edit["keep"] == "all") {
        return Ok(());
    }
    Err(ApiError::unsupported(NAME, "context_management: conversations are not shortened here"))
}
