//! The generation loop: feed the prompt, then round by round get drafts, verify them, commit what
//! was accepted, and stream text. Without drafts a round is a step of plain decoding.

use crate::answer::{Answer, Sink};
use crate::cache::{Keep, Mark, Recalled};
use crate::logits::{LogitRows, RowLogits};
use crate::rules::TokenLogProbs;
use crate::sampling::SamplingParams;
use crate::speculation::{Proposer, SpecStats};
use crate::{Engine, Error, Feed, Want};
use kernels::Backend;
use model::tokenizer::Tokenizer;
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A part of the prompt has been computed.
    Prompt {
        /// Tokens of the prompt that are done, reused ones included.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// The next token, if it was asked for; whatever text it makes certain follows. Tokens that end
    /// the text are not told.
    Token {
        /// The token.
        id: u32,
        /// How likely it was, if that was asked for.
        log_probs: Option<&'a TokenLogProbs>,
    },
    /// The next piece of text; whole characters.
    Text(&'a str),
    /// Something that the user may want to know; one line.
    Note(&'a str),
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
    /// The text went round in a circle, see [`crate::Rules::loop_tokens`].
    Repetition,
    /// The text is complete: its grammar allows nothing more, see [`crate::Rules::grammar`].
    Complete,
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
    /// Tokens of the prompt that the slot held already, or that came from a cache.
    pub reused: usize,
    /// Tokens of the prompt that were computed.
    pub prefilled: usize,
    /// Time spent on the prompt.
    pub prompt_time: Duration,
    /// Time spent on generated tokens.
    pub generate_time: Duration,
    /// How drafts went.
    pub speculation: SpecStats,
}

/// What generates text: a slot of an engine, with who drafts for it.
pub struct Generator<'a, B: Backend> {
    /// The engine.
    pub engine: &'a mut Engine<B>,
    /// The slot.
    pub slot: usize,
    /// The model's tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Who drafts. Text and states do not depend on it.
    pub proposer: &'a mut dyn Proposer<B>,
}

impl<B: Backend> std::fmt::Debug for Generator<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (engine, slot) = (&self.engine, self.slot);
        f.debug_struct("Generator")
            .field("engine", engine)
            .field("slot", &slot)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Generator<'_, B> {
    /// Generates text and streams it to `sink`, which may break off at any event.
    ///
    /// If the slot's tokens are a beginning of the prompt, only the rest is computed; otherwise the
    /// slot starts anew (a recurrent state cannot be wound back).
    ///
    /// # Errors
    /// Unusable settings or prompt (before any work), a device fault, non-finite logits.
    pub fn generate(
        &mut self,
        request: &Request<'_>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Summary, Error> {
        self.generate_cached(request, None, sink)
    }

    /// As [`Generator::generate`], with a cache if there is one: what it has of the prompt is not
    /// computed, and states of the prompt and of the answer are saved there. The text is the same.
    ///
    /// # Errors
    /// As for [`Generator::generate`].
    pub fn generate_cached(
        &mut self,
        request: &Request<'_>,
        mut keep: Option<Keep<'_>>,
        sink: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Summary, Error> {
        let vocab = self.engine.hyper_params().vocab;
        request.sampling.validate(vocab)?;
        check_prompt(request.prompt, vocab, self.engine.config().context)?;

        let context = self.engine.config().context;
        let answer = Answer::new(request, self.tokenizer, context);
        let mut run =
            Generation { on: self, answer, sink, window: Vec::new(), logits: LogitRows::default() };
        let started = Instant::now();
        let mut summary = Summary {
            finish: Finish::Length,
            tokens: Vec::new(),
            reused: 0,
            prefilled: 0,
            prompt_time: Duration::ZERO,
            generate_time: Duration::ZERO,
            speculation: SpecStats::default(),
        };
        if request.max_tokens == Some(0) {
            return Ok(summary);
        }
        let logits = run.prompt(&mut summary, keep.as_mut())?;
        summary.prompt_time = started.elapsed();
        let decoding = Instant::now();
        summary.finish = match logits {
            Some(logits) => run.decode(logits)?,
            None => Finish::Cancelled,
        };
        summary.generate_time = decoding.elapsed();
        if let (Some(keep), Generator { engine, slot, .. }) = (keep, &mut *run.on) {
            engine.remember(*slot, keep.cache, Mark::Interval)?;
        }
        (summary.tokens, summary.speculation) = run.answer.into_parts();
        Ok(summary)
    }
}

pub(crate) fn check_prompt(prompt: &[u32], vocab: usize, context: usize) -> Result<(), Error> {
    if prompt.is_empty() {
        return Err(Error::NoTokens);
    }
    if let Some(&token) = prompt.iter().find(|&&t| t as usize >= vocab) {
        return Err(Error::TokenOutOfRange { token, vocab });
    }
    let tokens = prompt.len();
    if tokens > context { Err(Error::ContextFull { tokens, context }) } else { Ok(()) }
}

/// A request at work.
struct Generation<'g, 'a, 's, B: Backend> {
    on: &'g mut Generator<'a, B>,
    answer: Answer,
    sink: &'s mut Sink<'s>,
    window: Vec<u32>,
    logits: LogitRows,
}

impl<B: Backend> Generation<'_, '_, '_, B> {
    /// Computes the prompt; its last logits, or `None` if the sink broke off.
    fn prompt(
        &mut self,
        summary: &mut Summary,
        mut keep: Option<&mut Keep<'_>>,
    ) -> Result<Option<Vec<f32>>, Error> {
        let (prompt, slot) = (self.answer.prompt(), self.on.slot);
        let engine = &mut *self.on.engine;
        let cache = keep.as_mut().map(|keep| &mut *keep.cache);
        let recalled = engine.recall(slot, cache, prompt)?;
        if !matches!(recalled, Recalled::Held(_)) {
            self.on.proposer.begin();
        }
        let mut done = recalled.tokens();
        summary.reused = done;
        let points = keep.as_ref().map(|keep| keep.points(done, prompt.len()));
        let mut points = points.unwrap_or_default().into_iter().peekable();
        let chunk = engine.config().chunk;
        loop {
            let stop = points.peek().map_or(prompt.len(), |(at, _)| *at);
            let end = stop.min(done + chunk);
            let want = if end == prompt.len() { Want::Last } else { Want::Nothing };
            let logits = engine.forward(&[Feed::new(slot, &prompt[done..end], want)])?;
            done = end;
            let point = points.next_if(|(at, _)| *at == done);
            if let (Some(keep), Some((_, mark))) = (&mut keep, point) {
                engine.remember(slot, keep.cache, mark)?;
            }
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
    fn decode(&mut self, mut logits: Vec<f32>) -> Result<Finish, Error> {
        let mut end =
            self.answer.begin(RowLogits::All(&mut logits), self.on.tokenizer, self.sink)?;
        loop {
            match end {
                Some(finish) => return Ok(finish),
                None => end = self.round()?,
            }
        }
    }

    /// One round: drafts, their verification, and the commit of what counts.
    fn round(&mut self) -> Result<Option<Finish>, Error> {
        let Self { on, answer, sink, window, logits } = self;
        let Generator { engine, slot, tokenizer, proposer } = &mut **on;
        let drafts = answer.propose(engine, *slot, &mut **proposer)?;

        let started = Instant::now();
        answer.window(&drafts.tokens, window);
        let feed = match drafts.tokens[..] {
            [] => Feed::new(*slot, window, Want::Last),
            _ => Feed::deferred(*slot, window),
        };
        engine.forward_rows(&[feed], &[answer.draws()], logits)?;
        let rows = logits.iter(engine.hyper_params().vocab);
        let outcome = answer.round(rows, &drafts, tokenizer, sink);
        let verify = started.elapsed();

        if !drafts.tokens.is_empty() {
            engine.decide(*slot, outcome.fed)?;
        }
        if let Some(error) = outcome.error {
            return Err(error.into());
        }
        let told = answer.report(&drafts, (&outcome, verify), &mut **proposer, sink);
        Ok(outcome.end.or(told))
    }
}
