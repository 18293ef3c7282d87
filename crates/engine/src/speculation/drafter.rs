//! The proposer that users get: draft head and prompt lookup, as the policy decides.

use super::guard::{Head, SubsetGuard, Verified};
use super::lookup::{Lookup, LookupDraft};
use super::mode::SpecMode;
use super::policy::{Offer, Plan, Policy};
use super::propose::{Ask, Drafts, Proposer};
use super::round::{Round, Source};
use crate::{Context, DraftStep, Engine, Error};
use kernels::Backend;
use model::DraftVocab;
use std::time::Instant;

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

    fn head(&self) -> Head {
        self.subset.as_ref().map_or(Head::Full, |(_, guard)| guard.head())
    }

    /// Brings the index up to the sequence and looks.
    fn look_up<B: Backend>(&mut self, ask: &Ask<'_, B>) -> Option<LookupDraft> {
        if !self.policy.uses_lookup() || ask.room == 0 {
            return None;
        }
        let (prompt, output) = (ask.prompt, &*ask.output);
        let known = self.lookup.len();
        // In a text that only grows, what is known was checked before.
        if known < prompt.len() || known > prompt.len() + output.len() {
            self.lookup.sync(prompt);
        }
        self.lookup.extend(&output[self.lookup.len() - prompt.len()..]);
        self.lookup.propose(ask.room)
    }

    /// A chain of drafts by the draft head.
    fn chain<B: Backend>(&mut self, ask: Ask<'_, B>, depth: usize) -> Result<Drafts, Error> {
        let Ask { engine, slot, prompt, output, sampling, .. } = ask;
        let mut drafts = Drafts { source: Source::Mtp, ..Drafts::default() };
        let (head, before) = (self.head(), output.len());
        let mut chained = || -> Result<(), Error> {
            while let (true, Some(&token)) = (drafts.tokens.len() < depth, output.last()) {
                let started = Instant::now();
                engine.draft(&[DraftStep { slot, token }], head, &mut self.logits)?;
                let context = Context { prompt, output };
                let position = prompt.len() + output.len();
                let ids = engine.draft_ids(head);
                let draft = sampling.draft(&mut self.logits, ids, &context, position);
                drafts.times.push(started.elapsed());
                // Logits that no token can be drawn from: the chain ends.
                let Some(draft) = draft else { break };
                output.push(draft.token);
                drafts.tokens.push(draft.token);
                drafts.confidences.push(draft.confidence);
                if !self.policy.deeper(&drafts.confidences) {
                    break;
                }
            }
            Ok(())
        };
        let result = chained();
        output.truncate(before);
        result?;
        let kept = self.policy.keep(&drafts.confidences).min(drafts.tokens.len());
        drafts.left_out = drafts.tokens.split_off(kept);
        Ok(drafts)
    }
}

impl<B: Backend> Proposer<B> for Drafter {
    fn begin(&mut self) {
        self.policy.new_text();
        self.lookup = Lookup::new();
        if let Some((_, guard)) = &mut self.subset {
            guard.reset();
        }
    }

    fn propose(&mut self, ask: Ask<'_, B>) -> Result<Drafts, Error> {
        let found = self.look_up(&ask);
        let (mtp, room) = (ask.engine.has_mtp(), ask.room);
        let lookup = found.as_ref().map(|found| found.matched);
        match (self.policy.plan(Offer { mtp, lookup, room }), found) {
            (Plan::Mtp { depth }, _) => self.chain(ask, depth.min(room)),
            (Plan::Lookup { depth }, Some(LookupDraft { mut tokens, matched })) => {
                tokens.truncate(depth);
                Ok(Drafts { source: Source::Lookup, tokens, matched, ..Drafts::default() })
            }
            (Plan::Plain | Plan::Lookup { .. }, _) => Ok(Drafts::default()),
        }
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
