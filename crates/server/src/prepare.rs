//! From what is asked for to what the engine is given.

use crate::ApiError;
use crate::grammar::{Calls, Grammars};
use crate::output::ReaderSettings;
use crate::output::calls::{Calling, Functions};
use crate::request::{Chat, Format, Generate, Prompt, ToolChoice};
use crate::served::ServedModel;
use engine::batch::Job;
use engine::speculation::SpecMode;
use engine::{Detail, Opening, ReasoningBudget, Rules};
use model::chat::{RenderInput, Thinking};
use model::tokenizer::{SkipSpecial, SpecialTokens, Tokenizer};
use serde_json::{Map, Value};
use std::sync::Arc;

const CLOSE_THINKING: &str = "</think>";

/// How answers are made, whatever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) drafts: SpecMode,
    pub(crate) loop_tokens: usize,
}

/// A prompt in tokens, and how what follows it is read.
struct Prepared {
    tokens: Vec<u32>,
    thinking: Option<Thinking>,
    functions: Option<Arc<Functions>>,
    calling: Calling,
    one_call: bool,
    opening: Option<Opening>,
}

/// The jobs of a request, one per answer, and how their texts are read. `id` is unique to it.
///
/// # Errors
/// A conversation that the template refuses; what the model does not have.
pub(crate) fn prepare(
    model: &ServedModel,
    grammars: &Grammars,
    defaults: Defaults,
    request: &Generate,
    id: &str,
) -> Result<Vec<(Job, ReaderSettings)>, ApiError> {
    let tokenizer = &model.tokenizer;
    let prepared = match &request.prompt {
        Prompt::Chat(chat) => conversation(model, chat, &request.format)?,
        Prompt::Text(text) => plain(text_tokens(tokenizer, text)?),
        Prompt::Tokens(tokens) => plain(tokens.clone()),
    };
    let echo = match request.echo {
        true => tokenizer.decode_text(&known(&prepared.tokens, tokenizer), SkipSpecial::Yes),
        false => Ok(String::new()),
    };
    let echo = echo.map_err(|error| ApiError::field("prompt", error.to_string()))?;
    let calls = match &request.prompt {
        Prompt::Chat(chat) => calls(chat, &request.format),
        Prompt::Text(_) | Prompt::Tokens(_) => None,
    };
    let rules = Rules {
        grammar: grammars.constraint(tokenizer, &request.format, calls.as_ref())?,
        min_tokens: request.min_tokens,
        reasoning: budget(request, &prepared, tokenizer)?,
        opening: prepared.opening.clone(),
        loop_tokens: request.loop_tokens.unwrap_or(defaults.loop_tokens),
        detail: request.log_probs.map_or(Detail::Tokens, Detail::LogProbs),
    };
    let boundaries = message_ends(&prepared.tokens, tokenizer);
    let answer = |number: usize| {
        let mut sampling = request.sampling.clone();
        sampling.seed = sampling.seed.wrapping_add(number as u64);
        let job = Job {
            prompt: prepared.tokens.clone(),
            max_tokens: request.max_tokens,
            sampling,
            stop: request.stop.clone(),
            rules: rules.clone(),
            drafts: defaults.drafts,
            boundaries: boundaries.clone(),
        };
        let settings = ReaderSettings {
            tokenizer: tokenizer.clone(),
            prompt_tokens: prepared.tokens.len(),
            thinking: prepared.thinking,
            functions: prepared.functions.clone(),
            calling: prepared.calling,
            one_call: prepared.one_call,
            call_prefix: format!("call_{id}{number}_"),
            tell_tokens: request.log_probs.is_some(),
            echo: echo.clone(),
        };
        (job, settings)
    };
    Ok((0..request.choices).map(answer).collect())
}

/// Tokens that have a text; the engine refuses others with its own words.
fn known(tokens: &[u32], tokenizer: &Tokenizer) -> Vec<u32> {
    let has_text = |token: &u32| (*token as usize) < tokenizer.vocab_size();
    tokens.iter().copied().filter(has_text).collect()
}

fn plain(tokens: Vec<u32>) -> Prepared {
    let calling = Calling::Free;
    Prepared { tokens, thinking: None, functions: None, calling, one_call: false, opening: None }
}

/// Tokens of a text that stands for itself, with the beginning-of-sequence token where the model
/// wants one.
fn text_tokens(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, ApiError> {
    let tokens = tokenizer.encode(text, SpecialTokens::Parse);
    let tokens = tokens.map_err(|error| ApiError::field("prompt", error.to_string()))?;
    if tokens.is_empty() {
        return Ok(tokens);
    }
    let bos = tokenizer.bos_id().filter(|_| tokenizer.add_bos());
    Ok(bos.into_iter().chain(tokens).collect())
}

/// The calls that an answer may have, if they are to be enforced.
fn calls<'a>(chat: &'a Chat, format: &Format) -> Option<Calls<'a>> {
    Calls::new(&chat.tools, &chat.tool_choice, chat.parallel_calls, *format != Format::Text)
}

fn conversation(model: &ServedModel, chat: &Chat, format: &Format) -> Result<Prepared, ApiError> {
    let tokenizer = &model.tokenizer;
    let tokens = render(model, chat)?;
    let thinking = Thinking::after_ids(&tokens, tokenizer);
    let callable = !chat.tools.is_empty() && chat.tool_choice != ToolChoice::None;
    let functions = chat.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters));
    let functions = callable.then(|| Arc::new(Functions::new(functions)));
    let ruled = *format != Format::Text || calls(chat, format).is_some();
    let opening = opening(&chat.tool_choice, ruled, thinking, tokenizer)?;
    let one_call = !chat.parallel_calls;
    let calling = if chat.tool_choice.is_forced() { Calling::Forced } else { Calling::Free };
    Ok(Prepared { tokens, thinking: Some(thinking), functions, calling, one_call, opening })
}

/// The tokens of a conversation up to where the answer begins.
///
/// # Errors
/// If the model has no template, or that refuses the conversation.
pub(crate) fn render(model: &ServedModel, chat: &Chat) -> Result<Vec<u32>, ApiError> {
    let Some(template) = &model.template else {
        let message = "the model file has no chat template; use /v1/completions";
        return Err(ApiError::field("messages", message));
    };
    let mut kwargs = match chat.effort {
        Some(effort) => model.effort(effort)?,
        None => Map::new(),
    };
    kwargs.extend(chat.variables.clone());
    let tools: Vec<Value> = match chat.tool_choice {
        ToolChoice::None => Vec::new(),
        _ => chat.tools.iter().map(|tool| tool.definition.clone()).collect(),
    };
    let tools = Some(&tools[..]).filter(|tools| !tools.is_empty());
    let messages = &chat.messages;
    let input = RenderInput { messages, tools, kwargs, add_generation_prompt: true };
    Ok(template.render_tokens(&input, &model.tokenizer)?)
}

/// What the answer must begin with for a call to come, and for a grammar to follow if it is ruled
/// by one.
fn opening(
    choice: &ToolChoice,
    ruled: bool,
    thinking: Thinking,
    tokenizer: &Tokenizer,
) -> Result<Option<Opening>, ApiError> {
    // Up to where the tokens of a name begin.
    let call = match choice {
        ToolChoice::None | ToolChoice::Auto if !ruled => return Ok(None),
        ToolChoice::None | ToolChoice::Auto => None,
        ToolChoice::Required => Some("\n<function".to_owned()),
        ToolChoice::Function(name) => Some(format!("\n<function={name}>\n")),
    };
    let encode = |text: &str, special| {
        let tokens = tokenizer.encode(text, special);
        tokens.map_err(|error| ApiError::field("tool_choice", error.to_string()))
    };
    let mut tokens = Vec::new();
    if let Some(call) = call {
        tokens.extend(encode("<tool_call>", SpecialTokens::Parse)?);
        tokens.extend(encode(&call, SpecialTokens::AsText)?);
    }
    let after = tokenizer.token_id(CLOSE_THINKING).filter(|_| thinking == Thinking::Open);
    if thinking == Thinking::Open && after.is_none() {
        let message = format!("the model has no token {CLOSE_THINKING}, so nobody knows where");
        let message = format!("{message} its answer begins; switch thinking off");
        return Err(ApiError::unsupported("reasoning_effort", message));
    }
    if after.is_some() {
        tokens.splice(..0, encode("\n\n", SpecialTokens::AsText)?);
    }
    Ok(Some(Opening { after, tokens }))
}

/// The limit to thinking, where there is thinking.
fn budget(
    request: &Generate,
    prepared: &Prepared,
    tokenizer: &Tokenizer,
) -> Result<Option<ReasoningBudget>, ApiError> {
    let Some(tokens) = request.reasoning_budget else { return Ok(None) };
    if prepared.thinking != Some(Thinking::Open) {
        return Ok(None);
    }
    let failed = |message: String| ApiError::unsupported("reasoning_budget", message);
    let tag = tokenizer.token_id(CLOSE_THINKING);
    let tag = tag.ok_or_else(|| failed(format!("the model has no token {CLOSE_THINKING}")))?;
    let lines = |text: &str| {
        let tokens = tokenizer.encode(text, SpecialTokens::AsText);
        tokens.map_err(|error| failed(error.to_string()))
    };
    // As the chat format writes it; behind nothing there is no line to end.
    let before = if tokens == 0 { Vec::new() } else { lines("\n")? };
    let close = [before, vec![tag], lines("\n\n")?].concat();
    Ok(Some(ReasoningBudget { tokens, tag, close }))
}

/// Where messages end in a prompt, and other conversations may part from it.
fn message_ends(tokens: &[u32], tokenizer: &Tokenizer) -> Vec<usize> {
    let ends = tokens.iter().zip(1..).filter(|(token, _)| tokenizer.is_eog(**token));
    ends.map(|(_, end)| end).collect()
}
