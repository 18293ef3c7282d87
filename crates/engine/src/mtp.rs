//! The drafting block (multi-token prediction): one more decoder layer that takes the trunk's
//! streams of a position and the token after it, and gives logits for the token after that.
//!
//! It follows the trunk. The streams of the latest positions, whose next token came too late for
//! the window that made them, are kept until the next draft, and go through together with it. The
//! rows of drafts themselves are approximations and are dropped when the trunk has spoken.
//!
//! While nobody drafts, following costs nothing: beyond [`KEPT`] rows the oldest are dropped, and
//! the block's cache goes on behind the gap as if it were not there. Prompts go through whole, as
//! it is from them that most is to be seen. Either way only the quality of drafts is at stake.

mod snapshot;

pub(crate) use snapshot::{MtpSnapshot, rows_of};

use crate::layers::{LayerPass, Routing};
use crate::reads::WeightReads;
use crate::scratch::LayerScratch;
use crate::slots::{LayerState, Slots};
use crate::speculation::MAX_DEPTH;
use crate::weights::{Mixer, MtpWeights, Weights};
use crate::{DraftStep, EngineConfig, Error};
use kernels::Commit;
use kernels::{Backend, HcShape, Run, Window};
use model::{DraftVocab, HyperParams};
use std::ops::Range;

/// Rows of streams that a slot keeps: enough to draft well from after a pause, and few enough that
/// the first draft after it costs no more than a token.
const KEPT: usize = 16;

/// Rows of streams that each slot of an engine of these sizes keeps.
pub(crate) fn kept_rows(config: &EngineConfig) -> usize {
    KEPT.max(config.deferred)
}

/// The block with its states.
pub(crate) struct Mtp<B: Backend> {
    pub(crate) weights: MtpWeights<B>,
    pub(crate) subset: Option<SubsetHead<B>>,
    state: LayerState<B>,
    slots: Vec<MtpSlot>,
    /// The trunk's streams `[slots, kept rows, S, H]`.
    kept: B::Buffer,
    /// Streams of the last draft `[slots, S, H]`.
    chain: B::Buffer,
    /// Streams `[T, S, H]`.
    pub(crate) x: B::Buffer,
    /// Embeddings `[T, H]`.
    e: B::Buffer,
    /// Both, normalised `[T, S, 2 H]`.
    both: B::Buffer,
    window: Window,
    tokens: Vec<u32>,
    kept_rows: usize,
    most_rows: usize,
    row_numbers: Vec<usize>,
    /// The last row of each slot in the step that was just made.
    pub(crate) last_rows: Vec<usize>,
}

/// A head over some tokens only.
pub(crate) struct SubsetHead<B: Backend> {
    pub(crate) vocab: DraftVocab,
    /// The full head's rows of these tokens, in their order.
    pub(crate) matrix: B::Matrix,
    /// Bytes of the matrix.
    pub(crate) bytes: u64,
}

/// How far the block is on a slot.
#[derive(Clone, Copy, Debug, Default)]
struct MtpSlot {
    /// Rows in its cache that come from the trunk's streams. They are numbered without gaps.
    len: usize,
    /// Rows kept: those of the sequence's last positions, in a ring.
    kept: usize,
    /// Where in the ring the oldest of them is.
    oldest: usize,
    /// Of those, the last ones, rows of tokens on trial.
    on_trial: usize,
    /// Positions behind `len` that come from drafts.
    drafted: usize,
    /// Draft steps since the last window.
    steps: usize,
    /// Rows in the cache before the first that was dropped or is not what the sequence makes it.
    gap: Option<usize>,
    /// The token that the last of the `len` rows was made with, while it is not in the sequence.
    ahead: Option<u32>,
}

impl MtpSlot {
    /// Learns which token comes next: the last row may have been made with another.
    fn meet(&mut self, token: u32, commit: Commit) {
        if self.ahead.is_some_and(|ahead| ahead != token) {
            let right = self.len - 1;
            self.gap = Some(self.gap.map_or(right, |gap| gap.min(right)));
        }
        // A token on trial may yet be taken back.
        if commit == Commit::Now || self.ahead != Some(token) {
            self.ahead = None;
        }
    }
}

/// What a pass borrows from the engine.
pub(crate) struct MtpContext<'a, B: Backend> {
    pub(crate) backend: &'a mut B,
    pub(crate) hc: &'a HcShape,
    pub(crate) routing: Routing,
    pub(crate) layers: &'a mut LayerScratch<B>,
    pub(crate) token_embd: &'a B::Matrix,
    /// Bytes of a row of it.
    pub(crate) embed_row: u64,
    pub(crate) reads: &'a mut WeightReads,
}

impl<'a, B: Backend> MtpContext<'a, B> {
    /// What a pass borrows of the parts of an engine.
    pub(crate) fn new(
        (backend, layers): (&'a mut B, &'a mut LayerScratch<B>),
        weights: &'a Weights<B>,
        routing: Routing,
        reads: &'a mut WeightReads,
    ) -> Self {
        let Weights { hc, token_embd, embed_row, .. } = weights;
        Self { backend, hc, routing, layers, token_embd, embed_row: *embed_row, reads }
    }
}

/// Rows of a trunk window that belong to one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) slot: usize,
    pub(crate) first_row: usize,
    /// Tokens before the rows.
    pub(crate) history: &'a [u32],
    pub(crate) tokens: &'a [u32],
    pub(crate) commit: Commit,
}

impl<B: Backend> Mtp<B> {
    /// States of fresh sequences of the sizes in `config`.
    pub(crate) fn new(
        backend: &mut B,
        weights: MtpWeights<B>,
        hp: &HyperParams,
        config: &EngineConfig,
    ) -> Result<Self, Error> {
        let EngineConfig { slots, context, chunk, kv, .. } = *config;
        let kept_rows = kept_rows(config);
        let most_rows = chunk.saturating_add(kept_rows);
        let Mixer::Attention(attention) = &weights.layer.mixer else {
            unreachable!("a drafting block is read as an attention layer")
        };
        // The rows of drafts come behind those of the sequence.
        let context = context.saturating_add(MAX_DEPTH);
        let state = backend.new_qsa_state(&attention.shape, slots, context, kv)?;
        let (h, wide) = (hp.embd, hp.hc.streams * hp.embd);
        let mut buffer = |rows: usize, width: usize| backend.alloc(rows.saturating_mul(width));
        Ok(Self {
            state: LayerState::Attention(state),
            slots: vec![MtpSlot::default(); slots],
            kept: buffer(slots.saturating_mul(kept_rows), wide)?,
            chain: buffer(slots, wide)?,
            x: buffer(most_rows, wide)?,
            e: buffer(most_rows, h)?,
            both: buffer(most_rows, 2 * wide)?,
            window: Window::new(),
            tokens: Vec::new(),
            kept_rows,
            most_rows,
            row_numbers: Vec::new(),
            last_rows: Vec::new(),
            subset: None,
            weights,
        })
    }

    /// Rows that a pass may have.
    pub(crate) fn most_rows(&self) -> usize {
        self.most_rows
    }

    /// Makes `slot` a fresh sequence.
    pub(crate) fn reset(&mut self, backend: &mut B, slot: usize) {
        self.slots[slot] = MtpSlot::default();
        if let LayerState::Attention(state) = &mut self.state {
            backend.reset_qsa(state, slot);
        }
    }

    /// Makes room for a sequence of `len` tokens.
    pub(crate) fn reserve(
        &mut self,
        backend: &mut B,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        if let (Mixer::Attention(attention), LayerState::Attention(state)) =
            (&self.weights.layer.mixer, &mut self.state)
        {
            backend.reserve_qsa(&attention.shape, state, slot, len)?;
        }
        Ok(())
    }

    /// Forgets the rows of tokens that were on trial and did not make it.
    pub(crate) fn decide(&mut self, slot: usize, count: usize) {
        let slot = &mut self.slots[slot];
        slot.kept -= slot.on_trial - count.min(slot.on_trial);
        slot.on_trial = 0;
        if count > 0 {
            slot.ahead = None;
        }
    }

    /// Takes over the streams `x` of the trunk's rows `seen`: those whose next token is known may
    /// go through the block, the others are kept.
    pub(crate) fn see(&mut self, context: &mut MtpContext<'_, B>, x: &B::Buffer, seen: &Seen<'_>) {
        let wide = context.hc.streams * context.hc.width;
        let (slot, rows) = (seen.slot, seen.tokens.len());
        self.slots[slot].meet(seen.tokens[0], seen.commit);
        let MtpSlot { len, kept, .. } = self.slots[slot];
        let mut through = 0;
        if kept + rows > self.kept_rows && seen.commit == Commit::Now && rows > 1 {
            // A position goes in with the token after it.
            through = rows - 1;
            self.tokens.clear();
            self.tokens.extend(latest(seen.history, kept.saturating_sub(1)));
            self.tokens.extend(&seen.tokens[usize::from(kept == 0)..=through]);
            self.gather_kept(context.backend, wide, slot, 0);
            self.row_numbers.clear();
            self.row_numbers.extend(seen.first_row..seen.first_row + through);
            context.backend.gather_rows(x, &self.row_numbers, wide, (&mut self.x, kept));
            self.window.clear();
            self.window.push(slot, len, kept + through);
            self.pass(context);
            let slot = &mut self.slots[slot];
            (slot.len, slot.kept) = (len + kept + through, 0);
        }
        let left = seen.first_row + through..seen.first_row + rows;
        self.keep(context.backend, x, wide, (slot, left));
        let slot = &mut self.slots[slot];
        slot.on_trial = if seen.commit == Commit::Deferred { rows } else { 0 };
        (slot.drafted, slot.steps) = (0, 0);
    }

    /// One draft step of several slots at once. The streams of the steps' last rows, from which
    /// logits follow, are [`Mtp::last_rows`] of [`Mtp::x`].
    pub(crate) fn step(
        &mut self,
        context: &mut MtpContext<'_, B>,
        slots: &Slots<B>,
        steps: &[DraftStep],
    ) {
        let wide = context.hc.streams * context.hc.width;
        self.tokens.clear();
        self.window.clear();
        self.last_rows.clear();
        for &DraftStep { slot, token } in steps {
            let MtpSlot { len, kept, drafted, .. } = self.slots[slot];
            let first_row = self.window.rows();
            let (pos, count) = if kept > 0 {
                self.gather_kept(context.backend, wide, slot, first_row);
                self.tokens.extend(latest(slots.tokens(slot), kept - 1));
                (len, kept)
            } else {
                let out = (&mut self.x, first_row);
                context.backend.gather_rows(&self.chain, &[slot], wide, out);
                (len + drafted, 1)
            };
            self.tokens.push(token);
            let (replay, commit) = (0, Commit::Now);
            let run = Run { slot, first_row, len: count, first_pos: pos, replay, commit };
            self.window.push_run(run);
            self.last_rows.push(first_row + count - 1);
            let state = &mut self.slots[slot];
            state.steps += 1;
            if kept > 0 {
                (state.len, state.kept, state.drafted) = (len + kept, 0, 0);
                state.ahead = Some(token);
            } else {
                state.drafted += 1;
            }
        }
        self.pass(context);
        for (&DraftStep { slot, .. }, &row) in steps.iter().zip(&self.last_rows) {
            context.backend.gather_rows(&self.x, &[row], wide, (&mut self.chain, slot));
        }
    }

    /// Rows that a step of `slot` takes.
    pub(crate) fn step_rows(&self, slot: usize) -> usize {
        self.slots[slot].kept.max(1)
    }

    /// Whether the slot has something to draft from.
    pub(crate) fn can_step(&self, slot: usize) -> bool {
        let MtpSlot { len, kept, on_trial, .. } = self.slots[slot];
        on_trial == 0 && len + kept > 0
    }

    /// Draft steps of `slot` since its last window.
    pub(crate) fn drafts(&self, slot: usize) -> usize {
        self.slots[slot].steps
    }

    /// Puts the rows kept of `slot` into `x`, from row `first_row` on.
    fn gather_kept(&mut self, backend: &mut B, wide: usize, slot: usize, first_row: usize) {
        let MtpSlot { oldest, kept, .. } = self.slots[slot];
        let (first, room) = (slot * self.kept_rows, self.kept_rows);
        self.row_numbers.clear();
        self.row_numbers.extend((oldest..oldest + kept).map(|row| first + row % room));
        backend.gather_rows(&self.kept, &self.row_numbers, wide, (&mut self.x, first_row));
    }

    /// Keeps these rows of the trunk's streams `x`, in place of the oldest where room is short.
    fn keep(
        &mut self,
        backend: &mut B,
        x: &B::Buffer,
        wide: usize,
        (slot, rows): (usize, Range<usize>),
    ) {
        let (first, room, count) = (slot * self.kept_rows, self.kept_rows, rows.len());
        let state = &mut self.slots[slot];
        let dropped = (state.kept + count).saturating_sub(room);
        let start = (state.oldest + state.kept) % room;
        state.oldest = (state.oldest + dropped) % room;
        state.kept += count - dropped;
        if dropped > 0 {
            state.gap.get_or_insert(state.len);
        }
        // The rows lie in a ring: up to its end, then from its beginning.
        let before = count.min(room - start);
        for (rows, to) in
            [(rows.start..rows.start + before, start), (rows.start + before..rows.end, 0)]
        {
            self.row_numbers.clear();
            self.row_numbers.extend(rows);
            backend.gather_rows(x, &self.row_numbers, wide, (&mut self.kept, first + to));
        }
    }

    /// The block on the streams in `x` and the tokens in `tokens`; its streams replace those in
    /// `x`.
    fn pass(&mut self, context: &mut MtpContext<'_, B>) {
        let MtpContext { backend, hc, routing, layers, token_embd, embed_row, reads } = context;
        let (rows, weights) = (self.window.rows(), &self.weights);
        let embedded = self.tokens.len() as u64 * weights.embed_row.unwrap_or(*embed_row);
        reads.bytes += embedded + weights.input_bytes;
        let embedding = weights.embed.as_ref().unwrap_or(token_embd);
        backend.embed(embedding, &self.tokens, 1, &mut self.e);
        let io = (&self.e, &self.x);
        backend.mtp_input(hc, &weights.norms(), io, rows, &mut self.both);
        backend.matmul(&weights.eh_proj, &self.both, rows * hc.streams, &mut self.x);
        let window = &self.window;
        let (backend, routing, reads) = (&mut **backend, *routing, &mut **reads);
        let mut pass = LayerPass { backend, hc, routing, window, scratch: layers, reads };
        pass.mix(&weights.layer, &mut self.state, &mut self.x);
        pass.experts(&weights.layer, None, &mut self.x);
    }
}

/// The last `count` tokens.
fn latest(tokens: &[u32], count: usize) -> &[u32] {
    &tokens[tokens.len().saturating_sub(count)..]
}
