//! Drafts of many texts at once: one pass of the draft head makes a draft for each.

use super::job::{Live, Stage};
use crate::speculation::{Begun, Chain, Drafts, HasHead, Next};
use crate::{DraftStep, Engine, Error};
use kernels::Backend;
use std::time::Instant;

/// A chain of drafts in the making.
struct Making {
    slot: usize,
    chain: Chain,
    /// Length of the text without drafts.
    before: usize,
    next: Next,
    error: Option<Error>,
}

impl Making {
    fn fail(&mut self, error: Error) {
        (self.error, self.next) = (Some(error), Next::Done);
    }
}

/// What makes drafts for the slots of an engine.
pub(super) struct Rounds<'a, B: Backend> {
    pub(super) engine: &'a mut Engine<B>,
    pub(super) slots: &'a mut [Option<Live>],
    /// A buffer for the head's logits.
    pub(super) logits: &'a mut Vec<f32>,
}

impl<B: Backend> Rounds<'_, B> {
    /// Drafts for the next round of each of `slots`, at most `rows` each; what went wrong with one
    /// is told in its place. Requests without a text get none.
    pub(super) fn propose(&mut self, slots: &[usize], rows: usize) -> Vec<Result<Drafts, Error>> {
        let (config, head) = (*self.engine.config(), HasHead::of(self.engine));
        let vocab = self.engine.hyper_params().vocab;
        let mut all: Vec<_> = slots.iter().map(|_| Ok(Drafts::default())).collect();
        let mut makings: Vec<(usize, Making)> = Vec::new();
        for (index, &slot) in slots.iter().enumerate() {
            let Some(Live { answer, drafter, stage: Stage::Answer { .. }, .. }) =
                &mut self.slots[slot]
            else {
                continue;
            };
            let (text, before) = answer.draft_text(&config, rows);
            let room = text.room;
            match drafter.begin_round(&text, head) {
                Begun::Ready(mut drafts) => {
                    drafts.limit(room, vocab);
                    all[index] = Ok(drafts);
                }
                Begun::Chain(chain) => {
                    let (next, error) = (Next::Step, None);
                    makings.push((index, Making { slot, chain, before, next, error }));
                }
            }
        }
        let mut open: Vec<&mut Making> = makings.iter_mut().map(|(_, making)| making).collect();
        while !open.is_empty() {
            self.step_all(&mut open);
            open.retain(|making| making.next == Next::Step);
        }
        for (index, making) in makings {
            all[index] = self.end(making);
        }
        all
    }

    /// One step of each chain, as many at once as the head can take.
    fn step_all(&mut self, open: &mut [&mut Making]) {
        open.sort_by_key(|making| making.chain.head);
        let mut rest = open;
        while let Some(first) = rest.first() {
            let (mut rows, head) = (0, first.chain.head);
            let fits = |making: &&&mut Making| {
                let (own, most) = self.engine.draft_rows(making.slot);
                rows += own;
                making.chain.head == head && rows <= most
            };
            // A step that is too large alone is told by the engine.
            let count = rest.iter().take_while(fits).count().max(1);
            let (together, others) = rest.split_at_mut(count);
            self.step(together);
            rest = others;
        }
    }

    /// One pass of the head for these chains.
    fn step(&mut self, makings: &mut [&mut Making]) {
        let last = |slots: &[Option<Live>], slot: usize| {
            slots[slot].as_ref().and_then(|live| live.answer.last()).unwrap_or_default()
        };
        let slots = &*self.slots;
        let steps = makings.iter().map(|&&mut Making { slot, .. }| slot);
        let steps: Vec<_> =
            steps.map(|slot| DraftStep { slot, token: last(slots, slot) }).collect();
        let (started, head) = (Instant::now(), makings[0].chain.head);
        match self.engine.draft(&steps, head, self.logits) {
            Ok(()) => {}
            Err(error) if makings.len() == 1 => return makings[0].fail(error),
            // What the device said is told to all: they all were in the pass that failed.
            Err(Error::Kernel(error)) if self.engine.is_broken(makings[0].slot).unwrap_or(true) => {
                return makings.iter_mut().for_each(|making| making.fail(error.clone().into()));
            }
            // Whose fault it was shows when each goes alone.
            Err(_) => return makings.chunks_mut(1).for_each(|alone| self.step(alone)),
        }
        let share = started.elapsed() / u32::try_from(makings.len()).unwrap_or(u32::MAX);
        let width = self.logits.len() / makings.len();
        let (config, ids) = (self.engine.config(), self.engine.draft_ids(head));
        for (making, row) in makings.iter_mut().zip(self.logits.chunks_exact_mut(width)) {
            let Some(live) = &mut self.slots[making.slot] else { continue };
            let (mut text, _) = live.answer.draft_text(config, 0);
            making.next = live.drafter.extend(&mut making.chain, &mut text, (row, ids), share);
        }
    }

    fn end(&mut self, making: Making) -> Result<Drafts, Error> {
        let Making { slot, chain, before, error, .. } = making;
        let Some(live) = &mut self.slots[slot] else { return Ok(Drafts::default()) };
        live.answer.take_off(before);
        error.map_or_else(|| Ok(live.drafter.end_chain(chain)), Err)
    }
}
