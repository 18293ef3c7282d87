//! The caches of all slots of a layer, in two buffers.
//!
//! One buffer has the keys and values of all tokens, the other the index keys: a slot's tokens
//! follow one another in both, and its pooled keys are behind its raw ones. So a kernel reaches
//! every slot of a window in one call. A slot that needs more room gets it in new buffers, into
//! which the device copies what the old ones hold.

use crate::NAME;
use crate::buffer::GpuBuffer;
use crate::qsa::layout::Layout;
use crate::recorder::Recorder;
use kernels::{Error, KvType, QsaShape, Run};

/// Room is taken in multiples of so many tokens.
const STEP: usize = 256;

/// Most words of a buffer: kernels count them in 32 bits, DirectX counts bytes so.
const MAX_WORDS: usize = 1 << 30;

/// Keys, values and index keys of one sparse attention layer, all slots.
#[derive(Debug)]
pub struct QsaState {
    pub(crate) layout: Layout,
    slots: Vec<Slot>,
    context: usize,
    /// `None` until room is asked for.
    pub(crate) buffers: Option<KvBuffers>,
}

/// What the caches hold.
#[derive(Debug)]
pub(crate) struct KvBuffers {
    /// Rows of keys and values.
    pub(crate) kv: GpuBuffer,
    /// Raw and pooled index keys.
    pub(crate) index: GpuBuffer,
}

/// Where the cache of a slot lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// Tokens that it holds.
    pub(crate) len: usize,
    /// Tokens that there is room for.
    capacity: usize,
    /// Row of the first token in the buffer of keys and values.
    pub(crate) kv_first: usize,
    /// Row of the first raw key in the buffer of index keys.
    pub(crate) index_first: usize,
    /// Its sequence is gone and no other was begun: its room may be taken.
    idle: bool,
}

impl Slot {
    /// Row of the first pooled key in the buffer of index keys.
    pub(crate) fn block_first(&self) -> usize {
        self.index_first + self.capacity
    }

    /// Rows in the buffer of index keys.
    fn index_rows(&self, block: usize) -> usize {
        self.capacity.checked_div(block).map_or(0, |blocks| self.capacity.saturating_add(blocks))
    }
}

impl QsaState {
    pub(crate) fn new(
        shape: &QsaShape,
        slots: usize,
        context: usize,
        kv: KvType,
    ) -> Result<Self, Error> {
        let layout = Layout::new(shape, kv)?;
        Ok(Self { layout, slots: vec![Slot::default(); slots], context, buffers: None })
    }

    /// Where the cache of `slot` lies.
    pub(crate) fn slot(&self, slot: usize) -> Slot {
        self.slots[slot]
    }

    /// Most tokens of a sequence.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Makes room for `len` tokens, in steps, so that a long sequence is not copied for every
    /// token.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], also where a buffer may not be so large. The caches are as they were
    /// then.
    pub(crate) fn reserve(
        &mut self,
        recorder: &mut Recorder,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        let held = self.slots[slot];
        if len <= held.capacity {
            self.slots[slot].idle = false;
            return Ok(());
        }
        let (most, least) = capacities(held.capacity, len, self.context);
        // Rather no room for later than no room now.
        let grown = match self.grown(recorder, slot, most) {
            Err(_) if least < most => self.grown(recorder, slot, least),
            grown => grown,
        };
        let (slots, made) = grown?;
        if let Some(old) = &self.buffers {
            for (from, to) in self.slots.iter().zip(&slots) {
                self.copy_slot(recorder, (old, from), (&made, to));
            }
        }
        self.slots = slots;
        // The old buffers go as soon as this is done, before the next layer's are copied.
        if self.buffers.replace(made).is_some() {
            recorder.submit();
        }
        Ok(())
    }

    /// Places of all slots where `slot` has room for `capacity` tokens, and buffers for them.
    fn grown(
        &self,
        recorder: &Recorder,
        slot: usize,
        capacity: usize,
    ) -> Result<(Vec<Slot>, KvBuffers), Error> {
        let (slots, kv_rows, index_rows) = self.placed(slot, capacity);
        let make = |rows: usize, width: usize| {
            let words = rows.saturating_mul(width);
            let bytes = words.saturating_mul(4);
            if words > MAX_WORDS {
                return Err(Error::OutOfMemory { device: NAME, bytes, what: "keys and values" });
            }
            recorder.allocator.storage(words, "keys and values")
        };
        let kv = make(kv_rows, self.layout.row_words())?;
        let index = make(index_rows, self.layout.index_words())?;
        Ok((slots, KvBuffers { kv, index }))
    }

    /// All slots in a row, `slot` with another capacity, idle ones with none; and how many rows
    /// both buffers need.
    fn placed(&self, slot: usize, capacity: usize) -> (Vec<Slot>, usize, usize) {
        let (mut kv_rows, mut index_rows) = (0usize, 0usize);
        let mut slots = self.slots.clone();
        slots[slot].capacity = capacity;
        slots[slot].idle = false;
        for slot in &mut slots {
            if slot.idle {
                slot.capacity = 0;
            }
            (slot.kv_first, slot.index_first) = (kv_rows, index_rows);
            kv_rows = kv_rows.saturating_add(slot.capacity);
            index_rows = index_rows.saturating_add(slot.index_rows(self.layout.block as usize));
        }
        (slots, kv_rows, index_rows)
    }

    /// Copies what a slot holds to another place.
    fn copy_slot(
        &self,
        recorder: &mut Recorder,
        (old, from): (&KvBuffers, &Slot),
        (new, to): (&KvBuffers, &Slot),
    ) {
        let width = self.layout.row_words();
        let (a, b) = (from.kv_first * width, to.kv_first * width);
        recorder.copy((&old.kv, a), (&new.kv, b), from.len * width);
        let Some(blocks) = from.len.checked_div(self.layout.block as usize) else { return };
        let width = self.layout.index_words();
        let (a, b) = (from.index_first * width, to.index_first * width);
        recorder.copy((&old.index, a), (&new.index, b), from.len * width);
        let (a, b) = (from.block_first() * width, to.block_first() * width);
        recorder.copy((&old.index, a), (&new.index, b), blocks * width);
    }

    /// The cache of `run`'s slot is about to get the run's tokens, in place of what it holds from
    /// the run's first position on.
    ///
    /// # Panics
    /// If it holds less, or would hold more than the context that the state was made for.
    pub(crate) fn extend(&mut self, run: &Run) {
        let (first, len) = (run.first_pos, run.first_pos + run.len);
        assert!(len <= self.context, "{len} tokens in a cache of {}", self.context);
        let slot = &mut self.slots[run.slot];
        assert!(slot.len >= first, "slot {} holds fewer than {first} tokens", run.slot);
        slot.len = len;
    }

    /// Says how many tokens `slot` holds, which must have room for them.
    pub(crate) fn set_len(&mut self, slot: usize, len: usize) {
        assert!(len <= self.slots[slot].capacity, "{len} tokens without room");
        self.slots[slot].len = len;
    }

    /// What lies behind the end of a sequence is never read, so nothing needs clearing. The room
    /// stays for the slot's next sequence, unless another slot needs more before that.
    pub(crate) fn reset(&mut self, slot: usize) {
        self.slots[slot].len = 0;
        self.slots[slot].idle = true;
        if self.slots.iter().all(|slot| slot.idle || slot.capacity == 0) {
            self.slots.fill(Slot::default());
            self.buffers = None;
        }
    }
}

/// Tokens to make room for, at most and at least, where `len` are needed and there is room for
/// `held`: half more if possible, in whole steps, and no more than the context, unless `len` is.
fn capacities(held: usize, len: usize, context: usize) -> (usize, usize) {
    let stepped = |len: usize| len.checked_next_multiple_of(STEP).unwrap_or(len);
    let within = |capacity: usize| stepped(capacity).min(context).max(len);
    (within(len.max(held.saturating_add(held / 2))), within(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_by_half_in_steps_within_the_context() {
        assert_eq!(capacities(0, 1, 1000), (256, 256));
        assert_eq!(capacities(256, 257, 1000), (512, 512));
        assert_eq!(capacities(4096, 4097, 1 << 20), (6144, 4352));
        assert_eq!(capacities(4096, 4097, 5000), (5000, 4352));
        assert_eq!(capacities(768, 990, 1000), (1000, 1000));
        assert_eq!(capacities(0, usize::MAX, 1000), (usize::MAX, usize::MAX));
        assert_eq!(capacities(usize::MAX, usize::MAX, 9), (usize::MAX, usize::MAX));
    }
}
