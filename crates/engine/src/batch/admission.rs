//! Who gets a slot, which one, and what of the prompt is there already.

use super::job::{Live, Prefill, Stage, Waiting};
use super::prefixes;
use super::scheduler::{JobSink, Scheduler};
use crate::answer::Answer;
use crate::cache::{Keep, Recalled, points};
use crate::speculation::Drafter;
use crate::{Error, Finish, Request};
use kernels::Backend;
use std::cmp::Reverse;
use std::time::Instant;

impl<B: Backend> Scheduler<B> {
    /// Gives free slots to those who wait, in their order.
    pub(super) fn admit(&mut self, sink: &mut JobSink<'_>) {
        while let Some(slot) = self.slot_for_next() {
            let Some(waiting) = self.queue.pop_front() else { return };
            self.make_room(slot, waiting.bytes);
            self.seat(slot, waiting, sink);
        }
    }

    /// The free slot that the first in the queue had best have: the one that holds most of its
    /// prompt, else the one that has been free for longest. Nobody overtakes the first: small
    /// requests must not starve a large one.
    fn slot_for_next(&self) -> Option<usize> {
        let next = self.queue.front()?;
        let held: u64 = self.slots.iter().flatten().map(|live| live.bytes).sum();
        if self.limits.cache_bytes.is_some_and(|limit| held + next.bytes > limit) {
            return None;
        }
        let free = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_none());
        let held = |slot| self.engine.held_of(slot, &next.job.prompt).unwrap_or(0);
        free.max_by_key(|&slot| (held(slot), Reverse(self.idle[slot].since), Reverse(slot)))
    }

    /// Empties free slots but `slot`, the one that has been free for longest first, until what
    /// they hold leaves room for `bytes` more.
    fn make_room(&mut self, slot: usize, bytes: u64) {
        let Some(limit) = self.limits.cache_bytes else { return };
        let per_token = self.engine.cache_bytes_per_token();
        let live: u64 = self.slots.iter().flatten().map(|live| live.bytes).sum();
        let mut idle: Vec<usize> = (0..self.slots.len())
            .filter(|&other| other != slot && self.slots[other].is_none())
            .collect();
        idle.sort_by_key(|&other| Reverse(self.idle[other].since));
        let held = |this: &Self, other: usize| {
            this.engine.history(other).map_or(0, |tokens| tokens.len() as u64) * per_token
        };
        let mut all = live + bytes + idle.iter().map(|&other| held(self, other)).sum::<u64>();
        while let Some(oldest) = idle.pop().filter(|_| all > limit) {
            all -= held(self, oldest);
            // There is such a slot.
            let _ = self.engine.reset(oldest);
        }
    }

    /// Gives `slot` to a request.
    fn seat(&mut self, slot: usize, waiting: Waiting, sink: &mut JobSink<'_>) {
        let Waiting { id, job, since, bytes } = waiting;
        let admitted = Instant::now();
        let queued = admitted - since;
        self.totals.queued += queued;
        let request = Request {
            prompt: &job.prompt,
            max_tokens: job.max_tokens,
            sampling: job.sampling,
            stop: job.stop,
        };
        let answer =
            Answer::new(&request, &self.tokenizer, self.most_tokens()).with_rules(job.rules);
        let known = self.idle[slot].drafter.take().filter(|known| known.mode() == job.drafts);
        let drafter = known.unwrap_or_else(|| Drafter::new(job.drafts, &self.engine));
        let mut prefill = Prefill::default();
        if self.cache.is_some() {
            prefill.points = points(&job.boundaries, Keep::EVERY, 0, job.prompt.len()).into();
        }
        let live = Live {
            id,
            answer,
            drafter,
            stage: Stage::Prompt { done: 0 },
            prefill,
            bytes,
            queued,
            admitted,
            answering: None,
            cancelled: false,
        };
        self.slots[slot] = Some(live);
        if job.max_tokens == Some(0) {
            // What the slot holds is another text's.
            self.end(slot, Finish::Length, sink);
        } else if let Err(error) = self.recall(slot) {
            self.fail(slot, error, sink);
        } else if self.cache.is_some() {
            prefixes::meet(&mut self.slots, slot);
        }
    }

    /// Makes the slot a beginning of its request's prompt, as long as is to be had.
    fn recall(&mut self, slot: usize) -> Result<(), Error> {
        let Some(live) = &mut self.slots[slot] else { return Ok(()) };
        let recalled = self.engine.recall(slot, self.cache.as_mut(), live.answer.prompt())?;
        if !matches!(recalled, Recalled::Held(_)) {
            live.drafter.new_text();
        }
        let reused = recalled.tokens();
        // What was there before may turn out to be unusable.
        let totals = self.totals.reused + reused as u64;
        self.totals.reused = totals - live.prefill.reused as u64;
        live.prefill.reused = reused;
        live.prefill.points.retain(|(at, _)| *at > reused);
        live.stage = Stage::Prompt { done: reused };
        Ok(())
    }

    /// Decides which prompts wait for others, and lets those that need not any more go on from what
    /// is there now.
    pub(super) fn follow(&mut self, sink: &mut JobSink<'_>) {
        if self.cache.is_none() {
            return;
        }
        for slot in 0..self.slots.len() {
            if !self.wait(slot) {
                continue;
            }
            match self.recall(slot) {
                // Whoever it waited for may have gone before the end of what they share: others
                // that waited, too, now compute it for each other.
                Ok(()) => {
                    prefixes::meet(&mut self.slots, slot);
                    self.wait(slot);
                }
                Err(error) => self.fail(slot, error, sink),
            }
        }
    }

    /// Decides whether the request on `slot` waits; true if it did and need not any more.
    fn wait(&mut self, slot: usize) -> bool {
        let waits = prefixes::waits(&self.slots, slot);
        let Some(live) = &mut self.slots[slot] else { return false };
        std::mem::replace(&mut live.prefill.waits, waits) && !waits
    }
}
