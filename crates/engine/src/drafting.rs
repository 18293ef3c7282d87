//! Drafts of the engine: the drafting block's side of a window, and its own steps.

use crate::engine::routing;
use crate::forward::HeadWeights;
use crate::mtp::{Mtp, MtpContext, Seen, SubsetHead};
use crate::scratch::Scratch;
use crate::speculation::{Head, MAX_DEPTH};
use crate::weights::weight;
use crate::{Engine, Error, Feed};
use kernels::{Activations, Backend};
use model::{Checkpoint, DraftVocab};
use std::time::Instant;

/// One draft step of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftStep {
    /// The slot.
    pub slot: usize,
    /// The token after the sequence: the one that was drawn and not yet fed in the first step of a
    /// round, afterwards the draft of the step before.
    pub token: u32,
}

/// A drafting block that was taken out of its engine.
pub struct TakenBlock<B: Backend>(Mtp<B>);

impl<B: Backend> std::fmt::Debug for TakenBlock<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakenBlock").finish_non_exhaustive()
    }
}

impl<B: Backend> Engine<B> {
    /// Takes the drafting block out, if there is one: until it is put back, windows cost what they
    /// cost in an engine without.
    pub fn take_mtp(&mut self) -> Option<TakenBlock<B>> {
        self.mtp.take().map(TakenBlock)
    }

    /// Puts a block back into the engine that it was taken from. Every slot becomes a fresh
    /// sequence, since the block has to see a sequence from its beginning.
    ///
    /// # Errors
    /// None but those of [`Engine::reset`].
    pub fn put_mtp(&mut self, block: TakenBlock<B>) -> Result<(), Error> {
        self.mtp = Some(block.0);
        (0..self.config.slots).try_for_each(|slot| self.reset(slot))
    }

    /// Whether the drafting block is loaded.
    pub fn has_mtp(&self) -> bool {
        self.mtp.is_some()
    }

    /// Makes a small head of the rows that belong to the tokens of `vocab`, to draft with; a copy
    /// of those rows is kept. Returns its bytes.
    ///
    /// # Errors
    /// [`Error::NoMtp`] without a drafting block; a token outside the vocabulary.
    pub fn load_draft_vocab(
        &mut self,
        checkpoint: &Checkpoint,
        vocab: DraftVocab,
    ) -> Result<usize, Error> {
        let (Some(mtp), Some(block)) = (&mut self.mtp, &checkpoint.mtp) else {
            return Err(Error::NoMtp);
        };
        let full = block.head_out.as_ref().unwrap_or(&checkpoint.output);
        let rows = weight(full)?.select_rows(vocab.ids())?;
        let matrix = self.backend.load_matrix(&rows, Activations::Int8)?;
        let bytes = rows.bytes().len();
        mtp.subset = Some(SubsetHead { vocab, matrix, bytes: bytes as u64 });
        Ok(bytes)
    }

    /// The draft vocabulary, if one is loaded.
    pub fn draft_vocab(&self) -> Option<&DraftVocab> {
        self.mtp.as_ref()?.subset.as_ref().map(|subset| &subset.vocab)
    }

    /// The tokens that the logits of `head` belong to, in their order; `None` if they are all
    /// tokens.
    pub fn draft_ids(&self, head: Head) -> Option<&[u32]> {
        self.draft_vocab().filter(|_| head == Head::Subset).map(DraftVocab::ids)
    }

    /// One step of the drafting block for several slots at once: `logits` becomes `[steps, rows of
    /// the head]`, the block's guess at the token after `token`. Without a draft vocabulary every
    /// head is the full one. The first step after a window takes the block through all that it has
    /// not seen yet.
    ///
    /// # Errors
    /// [`Error::NoMtp`] without a drafting block; [`Error::NothingToDraftFrom`] for a slot that is
    /// empty or has tokens on trial; [`Error::ChainTooLong`] after [`MAX_DEPTH`] steps without a
    /// window; unusable slots and tokens; a device fault, after which the slots must be reset.
    pub fn draft(
        &mut self,
        steps: &[DraftStep],
        head: Head,
        logits: &mut Vec<f32>,
    ) -> Result<(), Error> {
        logits.clear();
        self.check_steps(steps)?;
        self.foresee(steps);
        let Self { backend, weights, slots, scratch, mtp, hp, config, reads, .. } = self;
        let Some(mtp) = mtp else {
            return Err(Error::NoMtp);
        };
        let started = Instant::now();
        for step in steps {
            // The rows of drafts come behind the sequence.
            let len = slots.tokens(step.slot).len() + mtp.step_rows(step.slot);
            mtp.reserve(backend, step.slot, len + MAX_DEPTH)?;
        }
        let Scratch { layers, head: buffers, .. } = scratch;
        let own = (&mut *backend, &mut *layers);
        let mut context = MtpContext::new(own, weights, routing(hp, config), reads);
        mtp.step(&mut context, slots, steps);
        let full = mtp.weights.head.as_ref().unwrap_or(&weights.output);
        let full_bytes = mtp.weights.head_bytes.unwrap_or(weights.output_bytes);
        let (matrix, bytes, rows) = match (&mtp.subset, head) {
            (Some(subset), Head::Subset) => (&subset.matrix, subset.bytes, subset.vocab.len()),
            _ => (full, full_bytes, hp.vocab),
        };
        let head =
            HeadWeights { mixer: &mtp.weights.head_hc, matrix, bytes, hc: &weights.hc, rows };
        reads.bytes += head.bytes_read(mtp.last_rows.len());
        let io = (buffers, &mut layers.inject);
        let result = head.logits(backend, (&mtp.x, &mtp.last_rows), io, logits);
        let fault = backend.check();
        let result = result.and(fault.map_err(Error::from));
        if result.is_err() {
            steps.iter().for_each(|step| slots.set_broken(step.slot));
        }
        reads.time += started.elapsed();
        result
    }

    /// Rows that a draft step of `slot` takes, and rows that a step of all slots may have.
    pub(crate) fn draft_rows(&self, slot: usize) -> (usize, usize) {
        self.mtp.as_ref().map_or((0, 0), |mtp| (mtp.step_rows(slot), mtp.most_rows()))
    }

    /// Shows the streams of the window that was just run to the drafting block.
    ///
    /// # Errors
    /// A device fault.
    pub(crate) fn keep_streams(&mut self, feeds: &[Feed<'_>]) -> Result<(), Error> {
        let Self { backend, weights, slots, scratch, mtp, hp, config, window, reads, .. } = self;
        let Some(mtp) = mtp else { return Ok(()) };
        let Scratch { x, layers, .. } = scratch;
        let own = (&mut *backend, layers);
        let mut context = MtpContext::new(own, weights, routing(hp, config), reads);
        for (feed, run) in feeds.iter().zip(window.runs()) {
            let Feed { slot, tokens, commit, .. } = *feed;
            let history = slots.tokens(slot);
            let seen = Seen { slot, first_row: run.first_row, history, tokens, commit };
            mtp.see(&mut context, x, &seen);
        }
        Ok(backend.check()?)
    }

    fn check_steps(&self, steps: &[DraftStep]) -> Result<(), Error> {
        let Some(mtp) = &self.mtp else { return Err(Error::NoMtp) };
        if steps.is_empty() {
            return Err(Error::NoTokens);
        }
        let vocab = self.hp.vocab;
        let mut rows = 0;
        for (i, &DraftStep { slot, token }) in steps.iter().enumerate() {
            self.check_slot(slot)?;
            if self.slots.is_broken(slot) {
                return Err(Error::SlotBroken { slot });
            }
            if steps[..i].iter().any(|other| other.slot == slot) {
                return Err(Error::SlotTwice { slot });
            }
            if token as usize >= vocab {
                return Err(Error::TokenOutOfRange { token, vocab });
            }
            if !mtp.can_step(slot) {
                return Err(Error::NothingToDraftFrom { slot });
            }
            if mtp.drafts(slot) >= MAX_DEPTH {
                return Err(Error::ChainTooLong { slot, limit: MAX_DEPTH });
            }
            rows += mtp.step_rows(slot);
        }
        let limit = mtp.most_rows();
        if rows > limit { Err(Error::WindowTooLong { rows, limit }) } else { Ok(()) }
    }
}
