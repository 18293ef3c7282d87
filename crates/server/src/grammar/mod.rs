//! What answers must look like: JSON schemas, regular expressions and grammars, enforced while an
//! answer is decoded, by the crate `llguidance`.
//!
//! Whatever comes in is from strangers: its size and nesting are limited here, and llguidance has
//! limits of its own for the work and memory of compiling a grammar and of each step.

mod calls;
mod language;
mod matcher;
mod vocabulary;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

pub(crate) use calls::Calls;

use crate::ApiError;
use crate::request::{Format, Rule};
use engine::Constraint;
use language::Source;
use llguidance::api::ParserLimits;
use llguidance::{Matcher, ParserFactory};
use matcher::Compiled;
use model::tokenizer::Tokenizer;
use std::sync::{Arc, OnceLock};

/// Bytes of a grammar or schema at most.
const MAX_BYTES: usize = 256 << 10;
/// Open brackets within each other at most.
const MAX_NESTING: usize = 200;
/// Stack for compiling: grammars may go deep within the limits above.
const STACK: usize = 256 << 20;

/// Work and memory of one answer's grammar at most; beyond that it is refused, or the answer fails.
/// A lexer state takes 1 to 2 KiB.
const LIMITS: ParserLimits = ParserLimits {
    max_items_in_row: 2000,
    initial_lexer_fuel: 1_000_000,
    step_lexer_fuel: 200_000,
    step_max_items: 50_000,
    max_lexer_states: 20_000,
    max_grammar_size: 200_000,
    precompute_large_lexemes: false,
    verbose_errors: false,
};

/// Makes grammars for a tokenizer; its vocabulary is read when the first is asked for.
#[derive(Default)]
pub(crate) struct Grammars {
    factory: OnceLock<Result<ParserFactory, String>>,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").field("ready", &self.factory.get().is_some()).finish()
    }
}

impl Grammars {
    /// The constraint of answers of this format that may have these calls, if there is one.
    ///
    /// # Errors
    /// The field that cannot be enforced, and why.
    pub(crate) fn constraint(
        &self,
        tokenizer: &Tokenizer,
        format: &Format,
        calls: Option<&Calls<'_>>,
    ) -> Result<Option<Constraint>, ApiError> {
        let rule = match format {
            Format::Text => None,
            Format::Rule { rule, field } => Some((rule, field.as_str())),
        };
        let Some(calls) = calls else {
            let Some((rule, field)) = rule else { return Ok(None) };
            return self.compile(tokenizer, &source(rule, field)?, field).map(Some);
        };
        let rule = rule.filter(|_| !calls.is_forced());
        if let Some((rule, field)) = rule {
            // Alone first, so that what is wrong with it is told as such.
            self.compile(tokenizer, &source(rule, field)?, field)?;
        }
        let answer = rule.map(|(rule, field)| source(rule, field)).transpose()?;
        let compiled = |values| {
            let calls = calls.text(tokenizer, values)?;
            self.compile(tokenizer, &Source::calls(calls, answer.clone()), "tools")
        };
        match compiled(calls::Values::Exact) {
            Err(_) if !calls.is_strict() => compiled(calls::Values::Typed).map(Some),
            other => other.map(Some),
        }
    }

    fn compile(
        &self,
        tokenizer: &Tokenizer,
        source: &Source,
        field: &str,
    ) -> Result<Constraint, ApiError> {
        let failed = |what: String| {
            let what = language::explain(source, &what);
            ApiError::unsupported(field, format!("{field} cannot be enforced: {what}"))
        };
        source.check().map_err(failed)?;
        let factory = self.factory.get_or_init(|| factory(tokenizer)).as_ref();
        let factory = factory.map_err(|error| failed(error.clone()))?;
        let grammar = source.grammar();
        // On a thread of its own for its stack, and so that a panic there stays there.
        let compiled = std::thread::scope(|scope| {
            let work = move || {
                let matcher = Matcher::new(factory.create_parser(grammar));
                matcher.get_error().map_or(Ok(()), Err)?;
                // What has no text at all, or a first step beyond the limits, shows here.
                matcher::allowed(&mut matcher.deep_clone())?;
                Ok(matcher)
            };
            let thread = std::thread::Builder::new().name("grammar".to_owned()).stack_size(STACK);
            let thread = thread.spawn_scoped(scope, work).map_err(|error| error.to_string())?;
            thread.join().unwrap_or_else(|_| Err("the grammar is not understood".to_owned()))
        });
        Ok(Constraint(Arc::new(Compiled::new(compiled.map_err(failed)?))))
    }
}

/// What a rule is for llguidance.
fn source(rule: &Rule, field: &str) -> Result<Source, ApiError> {
    let source = match rule {
        Rule::Schema(schema) => Source::schema(schema),
        Rule::Regex(regex) => Ok(Source::regex(regex)),
        Rule::Lark(lark) => Source::lark(lark),
        Rule::Choice(texts) => Source::choice(texts),
    };
    source.map_err(|what| ApiError::unsupported(field, format!("{field}: {what}")))
}

fn factory(tokenizer: &Tokenizer) -> Result<ParserFactory, String> {
    let environment = vocabulary::environment(tokenizer)?;
    let mut factory = ParserFactory::new_simple(&environment).map_err(|error| error.to_string())?;
    factory.quiet();
    *factory.limits_mut() = LIMITS;
    Ok(factory)
}
