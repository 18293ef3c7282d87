//! The generation loop: feed the prompt, then round by round get drafts, verify them, commit what
//! was accepted, and stream text. Without drafts a round is a step of plain decoding.

use crate::sampling::{Context, SamplingParams};
use crate::speculation::verify::{Trial, Verifier};
use crate::speculation::{Ask, Drafts, MAX_DEPTH, Proposer, Round, SpecStats};
use crate::stop::StopMatcher;
use crate::{Engine, EngineConfig, Error, Feed, Want};
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
        let vocab = self.engine.hyper_params().vocab;
        request.sampling.validate(vocab)?;
        check_prompt(request.prompt, vocab, self.engine.config().context)?;

        let decoder = self.tokenizer.stream(SkipSpecial::Yes);
        let stops = StopMatcher::new(request.stop.iter().cloned());
        let mut run = Generation {
            on: self,
            request,
            tokens: Vec::new(),
            text: TextStream { decoder, stops, sink },
            verifier: Verifier::default(),
            stats: SpecStats::default(),
        };
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
        let logits = run.prompt(&mut summary)?;
        summary.prompt_time = started.elapsed();
        let decoding = Instant::now();
        summary.finish = match logits {
            Some(logits) => run.decode(logits)?,
            None => Finish::Cancelled,
        };
        summary.generate_time = decoding.elapsed();
        summary.tokens = run.tokens;
        summary.speculation = run.stats;
        Ok(summary)
    }
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

/// A request at work.
struct Generation<'g, 'a, 'r, B: Backend> {
    on: &'g mut Generator<'a, B>,
    request: &'r Request<'r>,
    /// Generated tokens; the last one was drawn and not fed yet.
    tokens: Vec<u32>,
    text: TextStream<'r>,
    verifier: Verifier,
    stats: SpecStats,
}

impl<B: Backend> Generation<'_, '_, '_, B> {
    /// Computes the prompt; its last logits, or `None` if the sink broke off.
    fn prompt(&mut self, summary: &mut Summary) -> Result<Option<Vec<f32>>, Error> {
        let (prompt, slot) = (self.request.prompt, self.on.slot);
        let engine = &mut *self.on.engine;
        let held = engine.history(slot)?;
        // The last token is always computed: its logits are what follows from.
        let reusable = held.len() < prompt.len() && prompt.starts_with(held);
        let mut done = if reusable && !engine.is_broken(slot)? { held.len() } else { 0 };
        if done == 0 {
            engine.reset(slot)?;
            self.on.proposer.begin();
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
            if (self.text.sink)(event).is_break() {
                return Ok(None);
            }
            if done == prompt.len() {
                return Ok(Some(logits));
            }
        }
    }

    /// Draws tokens until something ends the text.
    fn decode(&mut self, mut logits: Vec<f32>) -> Result<Finish, Error> {
        let prompt = self.request.prompt;
        let context = Context { prompt, output: &[] };
        let first = self.request.sampling.sample(&mut logits, &context, prompt.len())?;
        self.tokens.push(first);
        let mut end = self.take(0);
        loop {
            match end {
                Some(End::Cut(finish)) => return Ok(finish),
                Some(End::Complete(finish)) => return Ok(self.text.finish().unwrap_or(finish)),
                None => end = self.round()?,
            }
        }
    }

    /// One round: drafts, their verification, and the commit of what counts.
    fn round(&mut self) -> Result<Option<End>, Error> {
        let (before, room) = (self.tokens.len(), self.room());
        let Generator { engine, slot, tokenizer, proposer } = &mut *self.on;
        let Request { prompt, sampling, .. } = self.request;
        let slot = *slot;
        let output = &mut self.tokens;
        let ask = Ask { engine: &mut **engine, slot, prompt, output, sampling, room };
        let mut drafts = proposer.propose(ask)?;
        drafts.limit(room, engine.hyper_params().vocab);
        self.tokens.truncate(before);

        let started = Instant::now();
        let output = &mut self.tokens;
        let trial = Trial { slot, prompt, output, sampling };
        let is_last = |token| tokenizer.is_eog(token);
        let verdict = self.verifier.run(engine, trial, &drafts.tokens, is_last)?;
        let verify = started.elapsed();

        let end = (before..before + verdict.drawn).find_map(|at| Some((at, self.take(at)?)));
        // Up to an end among the draws: what was drawn behind it never was. Else plain decoding,
        // too, would have fed the token whose row gave none.
        let mut fed = verdict.drawn + usize::from(verdict.error.is_some());
        if let Some((at, _)) = end {
            fed = at + 1 - before;
            self.tokens.truncate(at + 1);
        }
        if !drafts.tokens.is_empty() {
            self.on.engine.decide(slot, fed)?;
        }
        if let (None, Some(error)) = (&end, verdict.error) {
            return Err(error.into());
        }
        let told = self.report(&drafts, (verdict.accepted, verify), before);
        Ok(end.map(|(_, end)| end).or(told))
    }

    /// Most drafts that make sense in the next round.
    fn room(&self) -> usize {
        let EngineConfig { context, deferred, .. } = *self.on.engine.config();
        let (prompt, before) = (self.request.prompt.len(), self.tokens.len());
        // The drawn token and the drafts are fed, and the last of them gives a token, too.
        let context = context - prompt - before;
        let tokens = self.request.max_tokens.map_or(usize::MAX, |max| max - before - 1);
        context.min(tokens).min(deferred.saturating_sub(1)).min(MAX_DEPTH)
    }

    /// Tells statistics and the proposer how a round went, whose draws begin at `before`; the end
    /// if the sink broke off at the proposer's note.
    fn report(
        &mut self,
        drafts: &Drafts,
        (accepted, verify): (usize, Duration),
        before: usize,
    ) -> Option<End> {
        let drawn = &self.tokens[before..];
        let drafted = drafts.tokens.len();
        let left_out = drafts.left_out.first().filter(|_| accepted == drafted);
        let round = Round {
            source: drafts.source,
            confidences: &drafts.confidences,
            matched: drafts.matched,
            drafted,
            accepted,
            left_out_hit: left_out.zip(drawn.get(drafted)).map(|(draft, token)| draft == token),
            draft_times: &drafts.times,
            verify,
        };
        self.stats.add(&round);
        let note = self.on.proposer.observe(&round, drawn)?;
        let told = (self.text.sink)(Event::Note(&note));
        told.is_break().then_some(End::Cut(Finish::Cancelled))
    }

    /// Shows the token at index `at` of the output; the reason to end there, if it is one.
    fn take(&mut self, at: usize) -> Option<End> {
        let token = self.tokens[at];
        if self.on.tokenizer.is_eog(token) {
            return Some(End::Complete(Finish::EndOfText(token)));
        }
        if let Some(finish) = self.text.show(token) {
            return Some(End::Cut(finish));
        }
        if self.request.max_tokens.is_some_and(|max| at + 1 >= max) {
            return Some(End::Complete(Finish::Length));
        }
        let full = self.request.prompt.len() + at >= self.on.engine.config().context;
        full.then_some(End::Complete(Finish::ContextFull))
    }
}

/// How a text ends.
enum End {
    /// Where it is: text that is held back is not part of it.
    Cut(Finish),
    /// With all that was generated.
    Complete(Finish),
}

/// Text on its way to the sink.
struct TextStream<'a> {
    decoder: StreamDecoder,
    stops: StopMatcher,
    sink: &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
}

impl TextStream<'_> {
    /// Streams a token; the reason to end if a stop string came or the sink broke off.
    fn show(&mut self, token: u32) -> Option<Finish> {
        let piece = self.decoder.push(token).unwrap_or_default();
        self.show_text(&piece)
    }

    fn show_text(&mut self, piece: &str) -> Option<Finish> {
        let scanned = self.stops.push(piece);
        if !scanned.text.is_empty() && (self.sink)(Event::Text(&scanned.text)).is_break() {
            return Some(Finish::Cancelled);
        }
        scanned.stop.map(Finish::StopString)
    }

    /// Streams what was held back; a reason to end that comes up there.
    fn finish(&mut self) -> Option<Finish> {
        let tail = self.decoder.finish();
        let stopped = self.show_text(&tail);
        let held = self.stops.finish();
        if !held.is_empty() && stopped.is_none() {
            let _ = (self.sink)(Event::Text(&held));
        }
        stopped
    }
}
