//! The store of experts: slots in memory, filled from the model's files by a few threads.

use crate::disk::read_part;
use crate::layout::Layout;
use crate::pool::{ReadPool, lock};
use crate::state::{self, Sharing, State};
use crate::{Counters, Disk, Profile, StoreError};
use kernels::stored::{ExpertSource, TakenExpert};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// How a store works.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Bytes for experts in memory.
    pub bytes: u64,
    /// Experts that a token uses in a layer.
    pub used: usize,
    /// Reads under way at once, at most.
    pub threads: usize,
}

/// How large a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Experts of the model.
    pub experts: usize,
    /// Slots in memory.
    pub slots: usize,
    /// Experts in them.
    pub held: usize,
    /// Bytes of all slots, used or not.
    pub bytes: u64,
    /// Bytes of those that are used.
    pub held_bytes: u64,
    /// Bytes of a matrix, as an average.
    pub matrix_bytes: usize,
}

/// Experts in slots of memory, read as they are wanted. The last handle ends its threads.
#[derive(Debug)]
pub struct ExpertStore {
    shared: Arc<Shared>,
    pool: ReadPool,
}

#[derive(Debug)]
struct Shared {
    disks: Vec<Box<dyn Disk>>,
    state: Mutex<State>,
    /// Something was read that a window may wait for.
    ready: Condvar,
}

impl ExpertStore {
    /// A store over `disks`, a source of bytes for every file of the layout.
    ///
    /// # Errors
    /// When the layout cannot be, or the memory is too small.
    pub fn new(
        layout: &Layout,
        disks: Vec<Box<dyn Disk>>,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        layout.check()?;
        if disks.len() != layout.files.len() {
            let what = format!("{} sources for {} files", disks.len(), layout.files.len());
            return Err(StoreError::Layout { what });
        }
        let (sharing, slots) = slots(layout, options)?;
        let state = Mutex::new(State::new(layout, sharing, &slots));
        let shared = Arc::new(Shared { disks, state, ready: Condvar::new() });
        Ok(Self { shared, pool: ReadPool::new(options.threads)? })
    }

    /// The smallest memory that a store can work with, for models of which a token uses `used`
    /// experts of a layer: twice as many of every size.
    pub fn least(layout: &Layout, used: usize) -> u64 {
        least(layout, used, Sharing::SameSize)
    }

    /// Memory that a store takes to hold every expert.
    pub fn most(layout: &Layout) -> u64 {
        layout.layers.iter().map(|l| (l.experts * state::slot_bytes(l)) as u64).sum()
    }

    /// Reads the experts that were wanted most in earlier runs into free slots, while nothing else
    /// is to be read.
    pub fn warm(&self, profile: &Profile) {
        let reads = lock(&self.shared.state).warm(profile.hottest());
        self.read(reads);
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        lock(&self.shared.state).counters()
    }

    /// How large it is.
    pub fn size(&self) -> StoreSize {
        lock(&self.shared.state).size()
    }

    /// How often experts were wanted so far, for the next run with the model of this fingerprint.
    pub fn profile(&self, model: u64) -> Profile {
        lock(&self.shared.state).profile(model)
    }

    /// Has the next `reads` matrices read.
    fn read(&self, reads: usize) {
        for _ in 0..reads {
            let shared = self.shared.clone();
            self.pool.submit(move || shared.read_one());
        }
    }
}

/// Memory for twice what a token uses, of every kind of slots.
fn least(layout: &Layout, used: usize, sharing: Sharing) -> u64 {
    let (kinds, _) = state::classes(layout, sharing);
    let each = kinds.iter().map(|kind| 2 * used as u64 * state::slot_bytes(kind) as u64);
    each.sum::<u64>().min(ExpertStore::most(layout))
}

/// Which layers share slots, and the slots of each kind: the memory is shared among kinds as the
/// experts are.
fn slots(layout: &Layout, options: StoreOptions) -> Result<(Sharing, Vec<usize>), StoreError> {
    let StoreOptions { bytes, used, .. } = options;
    let mut sharing = Sharing::OwnSlots;
    let mut need = least(layout, used, sharing);
    if bytes < need {
        sharing = Sharing::SameSize;
        need = least(layout, used, sharing);
    }
    if bytes < need {
        return Err(StoreError::TooSmall { have: bytes, need, used });
    }
    let (kinds, class) = state::classes(layout, sharing);
    let mut all = vec![0_u128; kinds.len()];
    for (layer, &class) in layout.layers.iter().zip(&class) {
        all[class] += (layer.experts * state::slot_bytes(layer)) as u128;
    }
    let total: u128 = all.iter().sum();
    let spare = u128::from(bytes - need);
    let slots = kinds.iter().zip(&all).map(|(kind, &own)| {
        let slot = state::slot_bytes(kind) as u128;
        let share = spare * own / total.max(1) / slot;
        (2 * used as u128 + share).min(own / slot) as usize
    });
    Ok((sharing, slots.collect()))
}

impl Shared {
    fn read_one(&self) {
        let Some(mut read) = lock(&self.state).next_read() else { return };
        let place = (read.offset, read.bytes);
        let disk = &*self.disks[read.file];
        // A window waits for each read that was begun: also a fault of this program must end it.
        let result = catch_unwind(AssertUnwindSafe(|| read_part(disk, place, &mut read.buffer)))
            .unwrap_or_else(|_| {
                let panicked = io::Error::other("the thread that reads panicked");
                Err(StoreError::read(disk.path(), place, panicked))
            });
        if lock(&self.state).was_read(read, result) {
            self.ready.notify_all();
        }
    }
}

impl ExpertSource for ExpertStore {
    fn want(&self, layer: usize, experts: &mut dyn Iterator<Item = usize>, rows: usize) {
        let reads = lock(&self.shared.state).want(layer, experts, rows);
        self.read(reads);
    }

    fn take(&self, taken: &mut Vec<TakenExpert>) -> Result<(), kernels::Error> {
        taken.clear();
        let mut state = lock(&self.shared.state);
        loop {
            let (reads, wait) = state.take(taken)?;
            self.read(reads);
            if !wait {
                return Ok(());
            }
            let since = Instant::now();
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waited(since.elapsed());
        }
    }

    fn expect(&self, layer: usize, experts: &[u32]) {
        let reads = lock(&self.shared.state).expect(layer, experts);
        self.read(reads);
    }

    fn resident(&self, layer: usize, held: &mut [bool]) {
        lock(&self.shared.state).resident(layer, held);
    }
}
