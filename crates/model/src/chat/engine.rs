//! The template engine, set up as the reference implementation sets up Jinja2, with budgets: steps,
//! depth of calls, length of output. It runs on a thread of its own whose stack is large enough
//! for the deepest value that the steps can build.
//!
//! One gap is known: the engine turns a list or map into a string before it charges for it. A
//! template that puts a list into itself many times over, or a namespace into itself, and joins
//! it to a string can still exhaust the memory.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value};

use super::error::{Raised, TemplateError, WrittenTooMuch};
use super::{RenderInput, clock, json, python};

/// Longest text that a template may write: 262,144 tokens of the longest kind, 128 bytes.
const MAX_OUTPUT_BYTES: usize = 32 << 20;
/// Steps of any render, and more for each JSON value and each byte of its input. A step is an
/// instruction or 64 bytes of made data; the official template takes 60 for each value.
const BASE_FUEL: u64 = 1_000_000;
const FUEL_PER_NODE: u64 = 128;
const MAX_FUEL: u64 = 16_000_000;
/// Stack for each step. Lists put into lists nest one level deeper in about two steps, and
/// writing or dropping them recurses with about 400 bytes a level. Unused stack costs nothing.
const STACK_PER_FUEL: u64 = 256;
/// Depth of calls and blocks; the official template uses two.
const MAX_DEPTH: usize = 100;

/// Checks the syntax of a template.
pub(super) fn check(source: &str) -> Result<(), TemplateError> {
    let environment = environment()?;
    let parsed = environment.template_from_named_str("chat_template", source);
    parsed.map(drop).map_err(|error| TemplateError::from_engine(&error, 0))
}

/// Renders a template with variables; those of the input win.
pub(super) fn render(
    source: &str,
    variables: &Map<String, Value>,
    input: &RenderInput<'_>,
) -> Result<String, TemplateError> {
    let fuel = budget(input);
    let stack = usize::try_from(fuel * STACK_PER_FUEL).unwrap_or(usize::MAX);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".to_owned());
        let run = move || run(source, variables, input, fuel);
        let thread = thread.stack_size(stack).spawn_scoped(scope, run);
        let thread = thread.map_err(|source| TemplateError::NoThread { stack, source })?;
        thread.join().unwrap_or(Err(TemplateError::Crashed))
    })
}

fn run(
    source: &str,
    variables: &Map<String, Value>,
    input: &RenderInput<'_>,
    fuel: u64,
) -> Result<String, TemplateError> {
    let failed = |error: Error| TemplateError::from_engine(&error, fuel);
    let mut environment = environment()?;
    environment.set_fuel(Some(fuel));
    let template = environment.template_from_named_str("chat_template", source).map_err(failed)?;
    let mut output = Bounded::default();
    template.render_captured_to(context(variables, input), &mut output).map_err(failed)?;
    // Templates and values are text, so the output is: nothing is lost here.
    Ok(String::from_utf8_lossy(&output.0).into_owned())
}

fn context(variables: &Map<String, Value>, input: &RenderInput<'_>) -> minijinja::Value {
    let own = [
        ("messages", serde(input.messages)),
        ("tools", serde(input.tools)),
        ("add_generation_prompt", minijinja::Value::from(input.add_generation_prompt)),
    ];
    let given = variables.iter().chain(&input.kwargs);
    let given = given.map(|(name, value)| (&**name, serde(value)));
    minijinja::Value::from_pairs(given.chain(own))
}

fn serde(value: impl serde::Serialize) -> minijinja::Value {
    minijinja::Value::from(Serde(value))
}

fn environment<'source>() -> Result<Environment<'source>, TemplateError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| TemplateError::from_engine(&error, 0))?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_unknown_method_callback(python::method);
    // These print whole values for a person, at a cost that grows with the square of the depth.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment.add_filter("trim", python::trim);
    environment.add_filter("items", python::items);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", clock::strftime_now);
    Ok(environment)
}

fn raise_exception(message: &minijinja::Value) -> Result<minijinja::Value, Error> {
    let raised = Raised(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

#[allow(clippy::needless_pass_by_value, reason = "The engine passes keyword arguments by value")]
fn tojson(value: &minijinja::Value, options: Kwargs) -> Result<minijinja::Value, Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    options.assert_all_used()?;
    let mut output = Bounded::default();
    json::write(value, indent, &mut output).map_err(|error| {
        let error = io::Error::from(error);
        Error::new(ErrorKind::BadSerialization, error.to_string()).with_source(error)
    })?;
    Ok(minijinja::Value::from(String::from_utf8_lossy(&output.0).into_owned()))
}

fn budget(input: &RenderInput<'_>) -> u64 {
    let tools = input.tools.unwrap_or_default();
    let values = input.messages.iter().chain(tools).chain(input.kwargs.values());
    let allowed = BASE_FUEL.saturating_add(values.map(allowance).sum());
    allowed.min(MAX_FUEL)
}

fn allowance(value: &Value) -> u64 {
    let inside = match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(allowance).sum(),
        Value::Object(map) => map.iter().map(|(key, v)| key.len() as u64 + allowance(v)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    FUEL_PER_NODE + inside
}

/// Output that refuses to grow beyond the limit.
#[derive(Debug, Default)]
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MAX_OUTPUT_BYTES - self.0.len() {
            return Err(io::Error::other(WrittenTooMuch(MAX_OUTPUT_BYTES)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
