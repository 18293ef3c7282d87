//! The state of an expert store: what every expert is at, what is to be read, and what a window
//! waits for. Nothing here waits or reads; `experts.rs` does, around it.

use crate::buffer::Buffer;
use crate::counters::{Busy, Counters};
use crate::layout::{LayerLayout, Layout, Matrices};
use crate::residency::{Heat, Residency, Room};
use crate::{Profile, StoreError, StoreSize};
use gguf::Bytes;
use kernels::stored::TakenExpert;
use kernels::window::MAX_DEFERRED;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Expected experts that may be in the making at once, at most.
const MAX_EXPECTED: usize = 32;

/// Why an expert is being read, the most pressing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A window waits for it.
    Wanted,
    /// It is likely to be wanted.
    Expected,
    /// It was wanted often, in earlier runs.
    Warming,
}

/// One matrix of an expert in memory.
#[derive(Debug)]
struct Part {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

/// What an expert is at.
#[derive(Debug)]
enum Place {
    Absent,
    /// Its matrices are on the way. Those not begun have their buffer here.
    Reading {
        why: Why,
        waiting: Vec<Option<Buffer>>,
        parts: Vec<Option<Part>>,
        left: usize,
    },
    Held {
        parts: Vec<Part>,
        why: Why,
    },
}

/// A matrix to be read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) expert: u32,
    pub(crate) part: usize,
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) buffer: Buffer,
    /// The window that ran when it began.
    window: u64,
}

/// What the running window still has to take.
#[derive(Debug, Default)]
struct Wanted {
    /// How many windows have wanted something.
    window: u64,
    layer: usize,
    heat: Option<Heat>,
    /// Place in the list of the window, expert.
    pending: Vec<(usize, u32)>,
    /// Whether an expert is among those pending.
    marks: Vec<bool>,
}

impl Wanted {
    fn has(&self, expert: u32) -> bool {
        self.marks[expert as usize]
    }

    fn push(&mut self, place: usize, expert: u32) {
        self.pending.push((place, expert));
        self.marks[expert as usize] = true;
    }

    fn clear(&mut self) {
        for (_, expert) in self.pending.drain(..) {
            self.marks[expert as usize] = false;
        }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    layers: Vec<LayerLayout>,
    /// The number of the first expert of each layer.
    first: Vec<u32>,
    /// The class of slots of each layer.
    class: Vec<usize>,
    places: Vec<Place>,
    residency: Residency,
    /// Buffers of slots that are free, by class.
    spare: Vec<Vec<Vec<Buffer>>>,
    /// Matrices to read: of wanted experts, of expected ones.
    queues: [VecDeque<(u32, usize)>; 2],
    /// Experts of earlier runs that are still to be read, the most wanted first.
    warming: VecDeque<u32>,
    wanted: Wanted,
    /// Expected experts in the making, and those made that no window has used.
    expected: Vec<u32>,
    failed: Option<StoreError>,
    counters: Counters,
    busy: Busy,
    /// How often windows wanted each expert.
    uses: Vec<u32>,
}

/// Which layers share slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None: layers come round in a circle, and in a common pool that holds little more than a
    /// round every expert would go just before it is wanted again.
    OwnSlots,
    /// Those with matrices of the same sizes, where memory is too short for the other.
    SameSize,
}

/// The kinds of slots, by a layer that uses them, and the kind of each layer.
pub(crate) fn classes(layout: &Layout, sharing: Sharing) -> (Vec<LayerLayout>, Vec<usize>) {
    let mut kinds: Vec<LayerLayout> = Vec::new();
    let sizes = |layer: &LayerLayout| -> Vec<usize> {
        layer.matrices.stacks().iter().map(|stack| stack.expert_bytes).collect()
    };
    let mut of_layer = Vec::new();
    for layer in &layout.layers {
        let known = match sharing {
            Sharing::OwnSlots => None,
            Sharing::SameSize => kinds.iter().position(|kind| sizes(kind) == sizes(layer)),
        };
        of_layer.push(known.unwrap_or_else(|| {
            kinds.push(*layer);
            kinds.len() - 1
        }));
    }
    (kinds, of_layer)
}

/// Memory of a slot for an expert of this layer.
pub(crate) fn slot_bytes(layer: &LayerLayout) -> usize {
    layer.matrices.stacks().iter().map(|stack| Buffer::reserved(stack.expert_bytes)).sum()
}

impl State {
    /// Nothing in memory, and `slots[class]` slots.
    pub(crate) fn new(layout: &Layout, sharing: Sharing, slots: &[usize]) -> Self {
        let (kinds, class) = classes(layout, sharing);
        let mut first = Vec::new();
        let mut experts = 0;
        for layer in &layout.layers {
            first.push(experts as u32);
            experts += layer.experts;
        }
        Self {
            layers: layout.layers.clone(),
            first,
            class,
            places: (0..experts).map(|_| Place::Absent).collect(),
            residency: Residency::new(slots, experts),
            spare: kinds.iter().map(|_| Vec::new()).collect(),
            queues: [VecDeque::new(), VecDeque::new()],
            warming: VecDeque::new(),
            wanted: Wanted { marks: vec![false; experts], ..Wanted::default() },
            expected: Vec::new(),
            failed: None,
            counters: Counters::default(),
            busy: Busy::default(),
            uses: vec![0; experts],
        }
    }

    fn layer_of(&self, expert: u32) -> usize {
        self.first.partition_point(|&first| first <= expert) - 1
    }

    fn class_of(&self, expert: u32) -> usize {
        self.class[self.layer_of(expert)]
    }

    fn number(&self, layer: usize, expert: usize) -> Option<u32> {
        let known = expert < self.layers.get(layer)?.experts;
        known.then(|| self.first[layer] + expert as u32)
    }

    /// A window wants experts of a layer. Returns the number of reads that were added.
    pub(crate) fn want(
        &mut self,
        layer: usize,
        experts: &mut dyn Iterator<Item = usize>,
        rows: usize,
    ) -> usize {
        self.failed = None;
        self.wanted.window += 1;
        self.wanted.layer = layer;
        // Windows that are too large to check drafts are prompts: they use most experts in passing.
        let heat = if rows > MAX_DEFERRED { Heat::Cold } else { Heat::Warm };
        self.wanted.heat = Some(heat);
        self.wanted.clear();
        for (place, expert) in experts.enumerate() {
            let Some(expert) = self.number(layer, expert) else { continue };
            self.wanted.push(place, expert);
            let uses = &mut self.uses[expert as usize];
            *uses = uses.saturating_add(1);
            self.counters.wanted += 1;
            match &self.places[expert as usize] {
                Place::Held { why, .. } => {
                    self.counters.held += 1;
                    self.counters.foreseen += u64::from(*why == Why::Expected);
                }
                Place::Reading { why: Why::Expected, .. } => self.counters.under_way += 1,
                _ => {}
            }
        }
        let mut pending = std::mem::take(&mut self.wanted.pending);
        pending.iter().for_each(|&(_, expert)| self.use_expected(expert));
        self.pass_over(layer);
        // What is there is taken first.
        pending.sort_by_key(|&(_, e)| !matches!(self.places[e as usize], Place::Held { .. }));
        self.wanted.pending = pending;
        self.ask()
    }

    /// Begins to read wanted experts for which there is room. Returns the number of reads added.
    fn ask(&mut self) -> usize {
        let mut added = 0;
        for n in 0..self.wanted.pending.len() {
            let (_, expert) = self.wanted.pending[n];
            if let Place::Absent = self.places[expert as usize] {
                match self.begin(expert, Why::Wanted) {
                    0 => break,
                    reads => added += reads,
                }
            }
        }
        added
    }

    /// Gives an absent expert a slot and puts its matrices on the list. Returns their number, 0 if
    /// there is no room.
    fn begin(&mut self, expert: u32, why: Why) -> usize {
        let layer = self.layer_of(expert);
        let class = self.class[layer];
        let places = &self.places;
        let in_use = |e: u32| match &places[e as usize] {
            Place::Held { parts, .. } => parts.iter().any(|p| Arc::strong_count(&p.buffer) > 1),
            _ => true,
        };
        match self.residency.room(class, |e| in_use(e) || self.wanted.has(e)) {
            Room::Full => return 0,
            Room::Evict(_) if why == Why::Warming => return 0,
            Room::Evict(gone) => self.drop_held(gone),
            Room::Free => {}
        }
        self.residency.take(class);
        let stacks = self.layers[layer].matrices.stacks();
        let buffers = self.spare[class].pop();
        let buffers = buffers.unwrap_or_else(|| {
            stacks.iter().map(|stack| Buffer::new(stack.expert_bytes)).collect()
        });
        let count = buffers.len();
        let waiting = buffers.into_iter().map(Some).collect();
        let parts = (0..count).map(|_| None).collect();
        self.places[expert as usize] = Place::Reading { why, waiting, parts, left: count };
        let queue = &mut self.queues[usize::from(why != Why::Wanted)];
        queue.extend((0..count).map(|part| (expert, part)));
        count
    }

    /// Makes a held expert absent; nobody uses its memory.
    fn drop_held(&mut self, expert: u32) {
        let class = self.class_of(expert);
        self.residency.free(class, expert);
        let place = std::mem::replace(&mut self.places[expert as usize], Place::Absent);
        let Place::Held { parts, why } = place else { return };
        let buffers: Vec<_> =
            parts.into_iter().filter_map(|part| Arc::into_inner(part.buffer)).collect();
        if buffers.len() == self.layers[self.layer_of(expert)].matrices.stacks().len() {
            self.spare[class].push(buffers);
        }
        self.counters.dropped += 1;
        if why == Why::Expected {
            self.counters.in_vain += 1;
            self.expected.retain(|&e| e != expert);
        }
    }

    /// An expert that was expected is wanted now.
    fn use_expected(&mut self, expert: u32) {
        match &mut self.places[expert as usize] {
            Place::Held { why, .. } => *why = Why::Wanted,
            Place::Reading { why, .. } if *why != Why::Wanted => {
                *why = Why::Wanted;
                // No others than those on the list: a part that failed has its buffer back too, and
                // every read has a job of its own.
                let [wanted, expected] = &mut self.queues;
                wanted.extend(expected.iter().filter(|(e, _)| *e == expert));
                expected.retain(|&(e, _)| e != expert);
            }
            _ => return,
        }
        self.expected.retain(|&e| e != expert);
    }

    /// What was expected of layers that the window has reached and did not want: it is not read if
    /// that has not begun, and goes first if it has.
    fn pass_over(&mut self, reached: usize) {
        let mut expected = std::mem::take(&mut self.expected);
        expected.retain(|&expert| {
            // Layers are passed in a circle: those just behind are passed, all others lie ahead.
            let layer = self.layer_of(expert);
            let behind = (reached + self.layers.len() - layer) % self.layers.len();
            if behind > self.layers.len() / 2 {
                return true;
            }
            self.forget(expert);
            false
        });
        self.expected = expected;
    }

    /// Gives up an expected expert.
    fn forget(&mut self, expert: u32) {
        let class = self.class_of(expert);
        match &mut self.places[expert as usize] {
            Place::Held { why, .. } => {
                *why = Why::Wanted;
                self.counters.in_vain += 1;
                self.residency.touch(class, expert, Heat::Cold);
            }
            Place::Reading { waiting, .. } if waiting.iter().all(Option::is_some) => {
                let buffers = waiting.drain(..).flatten().collect();
                self.queues[1].retain(|&(e, _)| e != expert);
                self.places[expert as usize] = Place::Absent;
                self.residency.free(class, expert);
                self.spare[class].push(buffers);
            }
            // Some of it is under way: the rest follows, and then it is cold.
            Place::Reading { why, .. } => {
                *why = Why::Warming;
                self.counters.in_vain += 1;
            }
            Place::Absent => {}
        }
    }

    /// Experts that a layer is likely to want. Returns the number of reads that were added.
    pub(crate) fn expect(&mut self, layer: usize, experts: &[u32]) -> usize {
        let mut added = 0;
        for &expert in experts {
            let Some(expert) = self.number(layer, expert as usize) else { continue };
            let class = self.class[layer];
            let same_slots = self.expected.iter().filter(|&&e| self.class_of(e) == class).count();
            if self.expected.len() >= MAX_EXPECTED || same_slots >= self.residency.slots(class) / 4
            {
                break;
            }
            if let Place::Absent = self.places[expert as usize] {
                let reads = self.begin(expert, Why::Expected);
                if reads == 0 {
                    break;
                }
                added += reads;
                self.expected.push(expert);
            }
        }
        added
    }

    /// Experts to be read when nothing else is, as long as slots are free; numbers beyond the
    /// model, as a list of a run with a drafting block has them for one without, are passed over.
    /// Returns the most reads that are added.
    pub(crate) fn warm(&mut self, experts: impl Iterator<Item = u32>) -> usize {
        let before = self.warming.len();
        let all = self.places.len();
        self.warming.extend(experts.filter(|&expert| (expert as usize) < all));
        (self.warming.len() - before) * 3
    }

    /// The next matrix to read.
    pub(crate) fn next_read(&mut self) -> Option<Read> {
        let queued = loop {
            if let Some(queued) = self.queues[0].pop_front() {
                break queued;
            }
            if let Some(queued) = self.queues[1].pop_front() {
                break queued;
            }
            let expert = self.warming.pop_front()?;
            if let Place::Absent = self.places[expert as usize] {
                self.begin(expert, Why::Warming);
            }
        };
        let (expert, part) = queued;
        let layer = self.layer_of(expert);
        let stack = self.layers[layer].matrices.stacks()[part];
        let place = &mut self.places[expert as usize];
        let Place::Reading { why, waiting, parts, left } = place else { return None };
        if *why == Why::Expected && *left == parts.len() && waiting.iter().all(Option::is_some) {
            self.counters.expected += 1;
        }
        let buffer = waiting[part].take()?;
        let bytes = stack.expert_bytes;
        let offset = stack.offset + u64::from(expert - self.first[layer]) * bytes as u64;
        self.busy.begin();
        let window = self.wanted.window;
        Some(Read { expert, part, file: stack.file, offset, bytes, buffer, window })
    }

    /// A matrix was read into its buffer, or was not. Returns whether a window may go on.
    pub(crate) fn was_read(
        &mut self,
        read: Read,
        result: Result<Range<usize>, StoreError>,
    ) -> bool {
        let Read { expert, part, buffer, bytes, window, .. } = read;
        self.busy.end();
        let class = self.class_of(expert);
        // What was read for somebody else fails for nobody: it is read again.
        let is_wanted = self.wanted.has(expert) && window == self.wanted.window;
        let Place::Reading { why, waiting, parts, left } = &mut self.places[expert as usize] else {
            return false;
        };
        *left -= 1;
        match result {
            Ok(range) => {
                self.counters.bytes += bytes as u64;
                parts[part] = Some(Part { buffer: Arc::new(buffer), range });
            }
            Err(error) => {
                self.counters.failed += 1;
                waiting[part] = Some(buffer);
                if is_wanted {
                    self.failed.get_or_insert(error);
                }
            }
        }
        if *left > 0 {
            return self.failed.is_some();
        }
        // Also an expert that nobody waits for matters to who waits: it can go now.
        let awaited = !self.wanted.pending.is_empty();
        let why = *why;
        let count = parts.len();
        if parts.iter().any(Option::is_none) {
            // A part is missing: as if nothing had been read. Buffers stay in the order of the
            // parts, whose sizes differ.
            let again = waiting.iter_mut().zip(parts).filter_map(|(waiting, part)| {
                waiting.take().or_else(|| Arc::into_inner(part.take()?.buffer))
            });
            let buffers: Vec<_> = again.collect();
            if buffers.len() == count {
                self.spare[class].push(buffers);
            }
            self.places[expert as usize] = Place::Absent;
            self.residency.free(class, expert);
            self.expected.retain(|&e| e != expert);
            return awaited;
        }
        let parts = parts.iter_mut().filter_map(Option::take).collect();
        self.places[expert as usize] = Place::Held { parts, why };
        let heat = match why {
            Why::Wanted => self.wanted.heat.unwrap_or(Heat::Warm),
            Why::Expected => Heat::Warm,
            Why::Warming => Heat::Cold,
        };
        self.residency.touch(class, expert, heat);
        awaited
    }

    /// Moves wanted experts that are in memory to `taken`. Returns the number of reads that were
    /// added meanwhile, and whether the window has to wait.
    pub(crate) fn take(
        &mut self,
        taken: &mut Vec<TakenExpert>,
    ) -> Result<(usize, bool), StoreError> {
        if let Some(error) = self.failed.take() {
            self.wanted.clear();
            return Err(error);
        }
        let layer = self.wanted.layer;
        let mut pending = std::mem::take(&mut self.wanted.pending);
        // Half of the slots are left for reading while the others are worked on.
        let most = match self.class.get(layer) {
            Some(&class) => (self.residency.slots(class) / 2).max(1),
            None => 0,
        };
        pending.retain(|&(place, expert)| {
            let there = taken.len() < most && self.hand_out(layer, (place, expert), taken);
            self.wanted.marks[expert as usize] = !there;
            !there
        });
        self.wanted.pending = pending;
        let added = self.ask();
        Ok((added, taken.is_empty() && !self.wanted.pending.is_empty()))
    }

    fn hand_out(
        &mut self,
        layer: usize,
        (place, expert): (usize, u32),
        taken: &mut Vec<TakenExpert>,
    ) -> bool {
        let Place::Held { parts, .. } = &self.places[expert as usize] else { return false };
        let bytes = |part: &Part| Bytes::new(part.buffer.clone(), part.range.clone());
        let parts = match self.layers[layer].matrices {
            Matrices::Separate(_) => [0, 1, 2].map(|n| bytes(&parts[n])),
            Matrices::Fused(_) => {
                let both = bytes(&parts[0]);
                let half = both.len() / 2;
                [both.slice(0..half), both.slice(half..2 * half), bytes(&parts[1])]
            }
        };
        taken.push(TakenExpert { place, parts });
        // A prompt leaves what was warm before it as it is.
        let prompt = self.wanted.heat == Some(Heat::Cold);
        if !prompt || self.residency.is_cold(expert) {
            let heat = if prompt { Heat::Cold } else { Heat::Warm };
            self.residency.touch(self.class[layer], expert, heat);
        }
        true
    }

    /// Sets `held[e]` where expert `e` of `layer` is in memory.
    pub(crate) fn resident(&self, layer: usize, held: &mut [bool]) {
        for (expert, held) in held.iter_mut().enumerate() {
            let number = self.number(layer, expert);
            let place = number.map(|number| &self.places[number as usize]);
            *held = matches!(place, Some(Place::Held { .. }));
        }
    }

    /// A window waited for so long.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.counters.waiting += time;
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { reading: self.busy.total(), ..self.counters }
    }

    pub(crate) fn size(&self) -> StoreSize {
        let mut size = StoreSize { experts: self.places.len(), ..StoreSize::default() };
        let mut kinds: Vec<Option<u64>> = vec![None; self.spare.len()];
        let (mut matrices, mut bytes) = (0, 0);
        for (layer, &class) in self.layers.iter().zip(&self.class) {
            kinds[class] = Some(slot_bytes(layer) as u64);
            matrices += layer.experts * layer.matrices.stacks().len();
            bytes += layer.experts * layer.expert_bytes();
        }
        size.matrix_bytes = bytes / matrices.max(1);
        for (class, kind) in kinds.iter().enumerate() {
            let bytes = kind.unwrap_or(0);
            let (slots, held) = (self.residency.slots(class), self.residency.listed(class));
            size.slots += slots;
            size.held += held;
            size.bytes += slots as u64 * bytes;
            size.held_bytes += held as u64 * bytes;
        }
        size
    }

    pub(crate) fn profile(&self, model: u64) -> Profile {
        Profile { model, uses: self.uses.clone() }
    }
}
