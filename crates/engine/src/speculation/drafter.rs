//! The proposer that users get: draft head and prompt lookup, as the policy decides.

use super::guard::{Head, SubsetGuard, Verified};
use super::lookup::{Lookup, LookupDraft};
use super::mode::SpecMode;
use super::policy::{Offer, Plan, Policy};
use super::propose::{Ask, Drafts, Proposer};
use super::round::{Round, Source};
use crate::{Context, DraftStep, Engine, Error, SamplingParams};
use kernels::Backend;
use model::DraftVocab;
use std::time::{Duration, Instant};

/// Drafts of one slot. Keep it as long as the model is loaded: it knows what windows and draft
/// steps cost here.
#[derive(Debug)]
pub struct Drafter {
    policy: Policy,
    lookup: Lookup,
    /// Tokens of the small head, and who decides between it and the full one.
    subset: Option<(DraftVocab, SubsetGuard)>,
    logits: Vec<f32>,
}

/// A text that drafts are wanted for: an [`Ask`] without the engine.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    pub(crate) prompt: &'a [u32],
    /// What was generated since, then the drafts of the chain that is being made.
    pub(crate) output: &'a mut Vec<u32>,
    pub(crate) sampling: &'a SamplingParams,
    /// Most drafts that make sense.
    pub(crate) room: usize,
}

/// Whether there is a draft head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasHead {
    Yes,
    No,
}

impl HasHead {
    pub(crate) fn of<B: Backend>(engine: &Engine<B>) -> Self {
        if engine.has_mtp() { Self::Yes } else { Self::No }
    }
}

/// How a round begins.
#[derive(Debug)]
pub(crate) enum Begun {
    /// With all its drafts, or none.
    Ready(Drafts),
    /// With a chain to be made: at least one step.
    Chain(Chain),
}

/// Drafts of the head, made one by one: each is what the next step starts from.
#[derive(Debug)]
pub(crate) struct Chain {
    drafts: Drafts,
    depth: usize,
    pub(crate) head: Head,
}

/// What a chain needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// One more step, from the text's last token.
    Step,
    /// Nothing: it is complete.
    Done,
}

impl Drafter {
    /// Drafts in `mode` for `engine`, with what it has loaded.
    pub fn new<B: Backend>(mode: SpecMode, engine: &Engine<B>) -> Self {
        let subset = engine.draft_vocab().map(|vocab| (vocab.clone(), SubsetGuard::new()));
        let policy = Policy::new(mode, engine.has_mtp());
        Self { policy, lookup: Lookup::new(), subset, logits: Vec::new() }
    }

    /// The mode it was made with.
    pub fn mode(&self) -> SpecMode {
        self.policy.mode()
    }

    /// Another text begins.
    pub(crate) fn new_text(&mut self) {
        self.policy.new_text();
        self.lookup = Lookup::new();
        if let Some((_, guard)) = &mut self.subset {
            guard.reset();
        }
    }

    fn head(&self) -> Head {
        self.subset.as_ref().map_or(Head::Full, |(_, guard)| guard.head())
    }

    /// Brings the index up to the sequence and looks.
    fn look_up(&mut self, text: &Text<'_>) -> Option<LookupDraft> {
        if !self.policy.uses_lookup() || text.room == 0 {
            return None;
        }
        let (prompt, output) = (text.prompt, &*text.output);
        let known = self.lookup.len();
        // In a text that only grows, what is known was checked before.
        if known < prompt.len() || known > prompt.len() + output.len() {
            self.lookup.sync(prompt);
        }
        self.lookup.extend(&output[self.lookup.len() - prompt.len()..]);
        self.lookup.propose(text.room)
    }

    /// Begins a round: drafts that are there at once, or a chain that the draft head has to make.
    pub(crate) fn begin_round(&mut self, text: &Text<'_>, head: HasHead) -> Begun {
        let found = self.look_up(text);
        let (mtp, room) = (head == HasHead::Yes, text.room);
        let lookup = found.as_ref().map(|found| found.matched);
        match (self.policy.plan(Offer { mtp, lookup, room }), found) {
            (Plan::Mtp { depth }, _) if depth.min(room) > 0 => Begun::Chain(Chain {
                drafts: Drafts { source: Source::Mtp, ..Drafts::default() },
                depth: depth.min(room),
                head: self.head(),
            }),
            (Plan::Lookup { depth }, Some(LookupDraft { mut tokens, matched })) => {
                tokens.truncate(depth);
                let source = Source::Lookup;
                Begun::Ready(Drafts { source, tokens, matched, ..Drafts::default() })
            }
            _ => Begun::Ready(Drafts::default()),
        }
    }

    /// Draws the chain's next draft from the head's `logits`, which belong to the tokens `ids`.
    /// The step took `time`.
    pub(crate) fn extend(
        &self,
        chain: &mut Chain,
        text: &mut Text<'_>,
        (logits, ids): (&mut [f32], Option<&[u32]>),
        time: Duration,
    ) -> Next {
        let Text { prompt, output, sampling, .. } = text;
        let position = prompt.len() + output.len();
        let started = Instant::now();
        let draft = sampling.draft(logits, ids, &Context { prompt, output }, position);
        let drafts = &mut chain.drafts;
        drafts.times.push(time + started.elapsed());
        // Logits that no token can be drawn from: the chain ends.
        let Some(draft) = draft else { return Next::Done };
        output.push(draft.token);
        drafts.tokens.push(draft.token);
        drafts.confidences.push(draft.confidence);
        let deeper = drafts.tokens.len() < chain.depth && self.policy.deeper(&drafts.confidences);
        if deeper { Next::Step } else { Next::Done }
    }

    /// Ends a chain: what of it is worth a row of the window, and what is not.
    pub(crate) fn end_chain(&self, chain: Chain) -> Drafts {
        let mut drafts = chain.drafts;
        let kept = self.policy.keep(&drafts.confidences).min(drafts.tokens.len());
        drafts.left_out = drafts.tokens.split_off(kept);
        drafts
    }

    /// Makes a whole chain for one slot; its drafts are left behind the text's output.
    fn chain<B: Backend>(
        &mut self,
        mut chain: Chain,
        (engine, slot): (&mut Engine<B>, usize),
        mut text: Text<'_>,
    ) -> Result<Drafts, Error> {
        let mut logits = std::mem::take(&mut self.logits);
        while let Some(&token) = text.output.last() {
            let started = Instant::now();
            engine.draft(&[DraftStep { slot, token }], chain.head, &mut logits)?;
            let from = (&mut logits[..], engine.draft_ids(chain.head));
            if self.extend(&mut chain, &mut text, from, started.elapsed()) == Next::Done {
                break;
            }
        }
        self.logits = logits;
        Ok(self.end_chain(chain))
    }
}

impl<B: Backend> Proposer<B> for Drafter {
    fn begin(&mut self) {
        self.new_text();
    }

    fn propose(&mut self, ask: Ask<'_, B>) -> Result<Drafts, Error> {
        let Ask { engine, slot, prompt, output, sampling, room } = ask;
        let before = output.len();
        let text = Text { prompt, output: &mut *output, sampling, room };
        let drafts = match self.begin_round(&text, HasHead::of(engine)) {
            Begun::Ready(drafts) => Ok(drafts),
            Begun::Chain(chain) => self.chain(chain, (engine, slot), text),
        };
        output.truncate(before);
        drafts
    }

    fn observe(&mut self, round: &Round<'_>, drawn: &[u32]) -> Option<String> {
        self.policy.observe(round);
        let (vocab, guard) = self.subset.as_mut().filter(|_| round.source == Source::Mtp)?;
        let mut message = None;
        for (i, &token) in drawn.iter().take(round.drafted).enumerate() {
            let (accepted, inside) = (i < round.accepted, vocab.contains(token));
            let switch = guard.observe(Verified { accepted, inside });
            message = switch.map(|switch| switch.to_string()).or(message);
        }
        message
    }
}
