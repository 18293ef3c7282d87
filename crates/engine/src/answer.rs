//! A text in the making: what was drawn, what of it was streamed, and when it ends. Who runs the
//! windows, for one text or for many at once, is not its business.

use crate::constraint::Guide;
use crate::generate::{Event, Finish, Request};
use crate::logits::RowLogits;
use crate::rules::{Detail, Drawing, LoopWatch, Rules, TokenLogProbs};
use crate::sampling::{Context, SamplingError, SamplingParams, Short};
use crate::speculation::verify::{Trial, Verdict, judge};
use crate::speculation::{Ask, Drafts, MAX_DEPTH, Proposer, Round, SpecStats, Text};
use crate::stop::StopMatcher;
use crate::{Engine, EngineConfig, Error};
use kernels::Backend;
use model::tokenizer::{SkipSpecial, StreamDecoder, Tokenizer};
use std::ops::ControlFlow;
use std::time::Duration;

/// Where a text's events go; it may break off at any of them.
pub(crate) type Sink<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// A text and what it goes by.
#[derive(Debug)]
pub(crate) struct Answer {
    prompt: Vec<u32>,
    sampling: SamplingParams,
    max_tokens: Option<usize>,
    context: usize,
    /// Generated tokens; the last one was drawn and not fed yet.
    tokens: Vec<u32>,
    rules: Rules,
    loops: LoopWatch,
    guide: Option<Guide>,
    /// Whether nothing may follow the last token.
    complete: bool,
    /// What is to be told of the round's tokens.
    details: Vec<TokenLogProbs>,
    decoder: StreamDecoder,
    stops: StopMatcher,
    stats: SpecStats,
}

/// What a round came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Tokens of its window that count: what [`Engine::decide`] has to be told if it had drafts.
    pub(crate) fed: usize,
    /// Why the text ends here, if it does.
    pub(crate) end: Option<Finish>,
    /// Why it cannot go on, if it cannot.
    pub(crate) error: Option<SamplingError>,
    /// Drafts accepted.
    accepted: usize,
    /// Where the round's tokens begin.
    first: usize,
}

/// How a text ends.
enum End {
    /// Where it is: text that is held back is not part of it.
    Cut(Finish),
    /// With all that was generated.
    Complete(Finish),
}

impl Answer {
    /// Nothing yet, of at most `context` tokens with the prompt.
    pub(crate) fn new(request: &Request<'_>, tokenizer: &Tokenizer, context: usize) -> Self {
        Self {
            prompt: request.prompt.to_vec(),
            sampling: request.sampling.clone(),
            max_tokens: request.max_tokens,
            context,
            tokens: Vec::new(),
            rules: Rules::default(),
            loops: LoopWatch::new(0),
            guide: None,
            complete: false,
            details: Vec::new(),
            decoder: tokenizer.stream(SkipSpecial::Yes),
            stops: StopMatcher::new(request.stop.iter().cloned()),
            stats: SpecStats::default(),
        }
    }

    /// Makes the text keep to `rules`.
    pub(crate) fn with_rules(mut self, rules: Rules) -> Self {
        self.loops = LoopWatch::new(rules.loop_tokens);
        self.guide = rules.guide();
        self.rules = rules;
        self
    }

    /// Tokens drawn so far.
    pub(crate) fn drawn(&self) -> usize {
        self.tokens.len()
    }

    /// What was given.
    pub(crate) fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    /// Tokens and statistics, at the end.
    pub(crate) fn into_parts(self) -> (Vec<u32>, SpecStats) {
        (self.tokens, self.stats)
    }

    /// Most drafts that make sense in the next round.
    fn room(&self, config: &EngineConfig) -> usize {
        let done = self.tokens.len();
        // The drawn token and the drafts are fed, and the last of them gives a token, too.
        let context = self.context - self.prompt.len() - done;
        let tokens = self.max_tokens.map_or(usize::MAX, |max| max - done - 1);
        context.min(tokens).min(config.deferred.saturating_sub(1)).min(MAX_DEPTH)
    }

    /// The proposer's drafts for the next round, as far as a window can take them.
    pub(crate) fn propose<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        slot: usize,
        proposer: &mut dyn Proposer<B>,
    ) -> Result<Drafts, Error> {
        let (room, vocab) = (self.room(engine.config()), engine.hyper_params().vocab);
        let before = self.tokens.len();
        let Self { prompt, tokens, sampling, .. } = self;
        let ask = Ask { engine, slot, prompt, output: tokens, sampling, room };
        let result = proposer.propose(ask);
        self.tokens.truncate(before);
        let mut drafts = result?;
        drafts.limit(room, vocab);
        Ok(drafts)
    }

    /// The text as those who draft see it, for at most `rows` drafts, and its length.
    pub(crate) fn draft_text(&mut self, config: &EngineConfig, rows: usize) -> (Text<'_>, usize) {
        let (room, before) = (self.room(config).min(rows), self.tokens.len());
        let Self { prompt, tokens: output, sampling, .. } = self;
        (Text { prompt, output, sampling, room }, before)
    }

    /// The text's last token, drafts included.
    pub(crate) fn last(&self) -> Option<u32> {
        self.tokens.last().copied()
    }

    /// Takes drafts off the text again.
    pub(crate) fn take_off(&mut self, before: usize) {
        self.tokens.truncate(before);
    }

    /// The tokens of the next window: the one that was drawn, then `drafts`.
    pub(crate) fn window(&self, drafts: &[u32], window: &mut Vec<u32>) {
        window.clear();
        window.extend(self.tokens.last());
        window.extend(drafts);
    }

    /// What the next window's draws look at, if only at the largest logits.
    pub(crate) fn draws(&self) -> Option<Short> {
        self.rules.are_silent(&self.tokens).then(|| Short::of(&self.sampling)).flatten()
    }

    /// Draws the first token from the prompt's last `logits`; the reason to end there, if there is
    /// one.
    pub(crate) fn begin(
        &mut self,
        logits: RowLogits<'_>,
        tokenizer: &Tokenizer,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Finish>, SamplingError> {
        let context = Context { prompt: &self.prompt, output: &[] };
        let mut drawing = Drawing {
            sampling: &self.sampling,
            rules: &self.rules,
            end_tokens: tokenizer.stop_ids(),
            guide: self.guide.as_mut(),
        };
        let first = drawing.draw(logits, &context, &mut self.details)?;
        self.tokens.push(first);
        self.complete = drawing.is_complete(&self.tokens);
        let end = self.take((0, 0), tokenizer, sink);
        Ok(end.map(|end| self.end(end, sink)))
    }

    /// Takes the logits of the round's window, which were those of [`Answer::window`].
    pub(crate) fn round<'l>(
        &mut self,
        rows: impl Iterator<Item = RowLogits<'l>>,
        drafts: &Drafts,
        tokenizer: &Tokenizer,
        sink: &mut Sink<'_>,
    ) -> Outcome {
        let first = self.tokens.len();
        let Self { prompt, tokens, sampling, rules, details, guide, complete, .. } = self;
        details.clear();
        let end_tokens = tokenizer.stop_ids();
        let drawing = Drawing { sampling, rules, end_tokens, guide: guide.as_mut() };
        let trial = Trial { prompt, output: tokens, drawing, details };
        let Verdict { drawn, accepted, error, complete: now_complete } =
            judge(rows, trial, &drafts.tokens, |token| tokenizer.is_eog(token));
        *complete = now_complete;
        let fed = drawn + usize::from(error.is_some());
        let mut outcome = Outcome { fed, end: None, error, accepted, first };
        for at in first..first + drawn {
            if let Some(end) = self.take((at, at - first), tokenizer, sink) {
                // What was drawn behind the end never was.
                self.tokens.truncate(at + 1);
                (outcome.fed, outcome.error) = (at + 1 - first, None);
                outcome.end = Some(self.end(end, sink));
                break;
            }
        }
        outcome
    }

    /// Tells statistics and the proposer how a round went that took `verify`; the end if the sink
    /// broke off at the proposer's note.
    pub(crate) fn report<B: Backend>(
        &mut self,
        drafts: &Drafts,
        (outcome, verify): (&Outcome, Duration),
        proposer: &mut dyn Proposer<B>,
        sink: &mut Sink<'_>,
    ) -> Option<Finish> {
        let drawn = &self.tokens[outcome.first..];
        let (drafted, accepted) = (drafts.tokens.len(), outcome.accepted);
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
        let note = proposer.observe(&round, drawn)?;
        sink(Event::Note(&note)).is_break().then_some(Finish::Cancelled)
    }

    /// Shows the token at index `at`, which is number `row` of its round; the reason to end there,
    /// if it is one.
    fn take(
        &mut self,
        (at, row): (usize, usize),
        tokenizer: &Tokenizer,
        sink: &mut Sink<'_>,
    ) -> Option<End> {
        let token = self.tokens[at];
        if tokenizer.is_eog(token) {
            return Some(End::Complete(Finish::EndOfText(token)));
        }
        if self.rules.detail != Detail::Text {
            let event = Event::Token { id: token, log_probs: self.details.get(row) };
            if sink(event).is_break() {
                return Some(End::Cut(Finish::Cancelled));
            }
        }
        let piece = self.decoder.push(token).unwrap_or_default();
        if let Some(finish) = self.show(&piece, sink) {
            return Some(End::Cut(finish));
        }
        if self.loops.push(token) {
            return Some(End::Complete(Finish::Repetition));
        }
        if self.complete && at + 1 == self.tokens.len() {
            return Some(End::Complete(Finish::Complete));
        }
        if self.max_tokens.is_some_and(|max| at + 1 >= max) {
            return Some(End::Complete(Finish::Length));
        }
        let full = self.prompt.len() + at >= self.context;
        full.then_some(End::Complete(Finish::ContextFull))
    }

    /// Streams `piece`; the reason to end if a stop string came or the sink broke off.
    fn show(&mut self, piece: &str, sink: &mut Sink<'_>) -> Option<Finish> {
        let scanned = self.stops.push(piece);
        if !scanned.text.is_empty() && sink(Event::Text(&scanned.text)).is_break() {
            return Some(Finish::Cancelled);
        }
        scanned.stop.map(Finish::StopString)
    }

    /// Streams what was held back, if it is part of the text; the reason why the text ends.
    fn end(&mut self, end: End, sink: &mut Sink<'_>) -> Finish {
        let finish = match end {
            End::Cut(finish) => return finish,
            End::Complete(finish) => finish,
        };
        let tail = self.decoder.finish();
        if let Some(stopped) = self.show(&tail, sink) {
            return stopped;
        }
        let held = self.stops.finish();
        if !held.is_empty() {
            let _ = sink(Event::Text(&held));
        }
        finish
    }
}
