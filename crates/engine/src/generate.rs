//! The generation loop: feed the prompt, draw tokens, stream text.

use crate::sampling::{Context, SamplingParams};
use crate::stop::StopMatcher;
use crate::{Engine, Error, Feed, Want};
use kernels::Backend;
use model::tokenizer::{SkipSpecial, StreamDecoder, Tokenizer};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What to generate.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// The whole sequence so far. What the slot already holds of it is not computed again.
    pub prompt: &'a [u32],
    /// Tokens to generate at most; `None` is until the end or the context is full.
    pub max_tokens: Option<usize>,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Strings that end the text; they are not part of it.
    pub stop: Vec<String>,
}

/// What happens while generating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A part of the prompt has been computed.
    Prompt {
        /// Tokens of the prompt that are done, reused ones included.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// The next piece of text; whole characters.
    Text(&'a str),
}

/// Why generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its text with this token.
    EndOfText(u32),
    /// One of the stop strings came.
    StopString(String),
    /// The token limit was reached.
    Length,
    /// The context is full.
    ContextFull,
    /// The caller asked to stop.
    Cancelled,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Why it ended.
    pub finish: Finish,
    /// Generated tokens, the one that ended the text included.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt that the slot held already.
    pub reused: usize,
    /// Tokens of the prompt that were computed.
    pub prefilled: usize,
    /// Time spent on the prompt.
    pub prompt_time: Duration,
    /// Time spent on generated tokens.
    pub generate_time: Duration,
}

/// Generates text on `slot` and streams it to `sink`, which may break off at any event.
///
/// If the slot's tokens are a beginning of the prompt, only the rest is computed; otherwise the
/// slot starts anew (a recurrent state cannot be wound back).
///
/// # Errors
/// Unusable settings or prompt (before any work), a device fault, non-finite logits.
pub fn generate<B: Backend>(
    engine: &mut Engine<B>,
    slot: usize,
    tokenizer: &Tokenizer,
    request: &Request<'_>,
    sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Summary, Error> {
    let vocab = engine.hyper_params().vocab;
    request.sampling.validate(vocab)?;
    check_prompt(request.prompt, vocab, engine.config().context)?;

    let mut run = Generation {
        request,
        tokens: Vec::new(),
        decoder: tokenizer.stream(SkipSpecial::Yes),
        stops: StopMatcher::new(request.stop.iter().cloned()),
        sink,
    };
    let started = Instant::now();
    let mut summary = Summary {
        finish: Finish::Length,
        tokens: Vec::new(),
        reused: 0,
        prefilled: 0,
        prompt_time: Duration::ZERO,
        generate_time: Duration::ZERO,
    };
    if request.max_tokens == Some(0) {
        return Ok(summary);
    }
    let logits = run.prompt(engine, slot, &mut summary)?;
    summary.prompt_time = started.elapsed();
    let decoding = Instant::now();
    summary.finish = match logits {
        Some(logits) => run.decode(engine, slot, tokenizer, logits)?,
        None => Finish::Cancelled,
    };
    summary.generate_time = decoding.elapsed();
    summary.tokens = run.tokens;
    Ok(summary)
}

fn check_prompt(prompt: &[u32], vocab: usize, context: usize) -> Result<(), Error> {
    if prompt.is_empty() {
        return Err(Error::NoTokens);
    }
    if let Some(&token) = prompt.iter().find(|&&t| t as usize >= vocab) {
        return Err(Error::TokenOutOfRange { token, vocab });
    }
    let tokens = prompt.len();
    if tokens > context { Err(Error::ContextFull { tokens, context }) } else { Ok(()) }
}

struct Generation<'a> {
    request: &'a Request<'a>,
    tokens: Vec<u32>,
    decoder: StreamDecoder,
    stops: StopMatcher,
    sink: &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
}

impl Generation<'_> {
    /// Computes the prompt; its last logits, or `None` if the sink broke off.
    fn prompt<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        slot: usize,
        summary: &mut Summary,
    ) -> Result<Option<Vec<f32>>, Error> {
        let prompt = self.request.prompt;
        let held = engine.history(slot)?;
        // The last token is always computed: its logits are what follows from.
        let reusable = held.len() < prompt.len() && prompt.starts_with(held);
        let mut done = if reusable && !engine.is_broken(slot)? { held.len() } else { 0 };
        if done == 0 {
            engine.reset(slot)?;
        }
        summary.reused = done;
        let chunk = engine.config().chunk;
        loop {
            let end = prompt.len().min(done + chunk);
            let want = if end == prompt.len() { Want::Last } else { Want::Nothing };
            let logits = engine.forward(&[Feed::new(slot, &prompt[done..end], want)])?;
            done = end;
            summary.prefilled = done - summary.reused;
            let event = Event::Prompt { done, total: prompt.len() };
            if (self.sink)(event).is_break() {
                return Ok(None);
            }
            if done == prompt.len() {
                return Ok(Some(logits));
            }
        }
    }

    /// Draws tokens until something ends the text.
    fn decode<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        slot: usize,
        tokenizer: &Tokenizer,
        mut logits: Vec<f32>,
    ) -> Result<Finish, Error> {
        let prompt = self.request.prompt;
        let finish = loop {
            let position = prompt.len() + self.tokens.len();
            let context = Context { prompt, output: &self.tokens };
            let token = self.request.sampling.sample(&mut logits, &context, position)?;
            self.tokens.push(token);
            if tokenizer.is_eog(token) {
                break Finish::EndOfText(token);
            }
            let piece = self.decoder.push(token).unwrap_or_default();
            if let Some(finish) = self.show(&piece) {
                return Ok(finish);
            }
            if self.request.max_tokens.is_some_and(|max| self.tokens.len() >= max) {
                break Finish::Length;
            }
            if position >= engine.config().context {
                break Finish::ContextFull;
            }
            logits = engine.forward(&[Feed::new(slot, &[token], Want::Last)])?;
        };
        let tail = self.decoder.finish();
        let stopped = self.show(&tail);
        let held = self.stops.finish();
        if !held.is_empty() && stopped.is_none() {
            let _ = (self.sink)(Event::Text(&held));
        }
        Ok(stopped.unwrap_or(finish))
    }

    /// Streams `piece`; the reason to end if a stop string came or the sink broke off.
    fn show(&mut self, piece: &str) -> Option<Finish> {
        let scanned = self.stops.push(piece);
        if !scanned.text.is_empty() && (self.sink)(Event::Text(&scanned.text)).is_break() {
            return Some(Finish::Cancelled);
        }
        scanned.stop.map(Finish::StopString)
    }
}
