//! Which commands of a list must wait for those before them.

use rustc_hash::FxHashMap;

/// What waits for what at a barrier. All of them also wait for what earlier barriers waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// Kernels for kernels.
    Kernels,
    /// Kernels and copies for kernels and copies.
    All,
}

/// A buffer that a command uses, by its place in [`Hazards`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) place: usize,
    pub(super) writes: bool,
}

/// Uses of buffers since the last barriers. Time is counted in barriers.
#[derive(Debug)]
pub(super) struct Hazards {
    places: FxHashMap<u64, usize>,
    free: Vec<usize>,
    used: Vec<LastUse>,
    /// Rises with every barrier.
    now: u64,
    /// When the last barrier for all commands was.
    all: u64,
    /// Whether something was copied since then.
    copied: bool,
}

/// When a buffer was used last.
#[derive(Clone, Copy, Debug, Default)]
struct LastUse {
    read: u64,
    written: u64,
}

impl Default for Hazards {
    fn default() -> Self {
        let (places, free, used) = (FxHashMap::default(), Vec::new(), Vec::new());
        Self { places, free, used, now: 1, all: 1, copied: false }
    }
}

impl Hazards {
    /// The place of the buffer with this number.
    pub(super) fn place(&mut self, buffer: u64) -> usize {
        *self.places.entry(buffer).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.used.push(LastUse::default());
                self.used.len() - 1
            })
        })
    }

    /// Forgets buffers that no command uses any more. Another one may get the place of one of them,
    /// whose uses can only cause a barrier too many.
    pub(super) fn forget(&mut self, buffers: &[u64]) {
        self.free.extend(buffers.iter().filter_map(|buffer| self.places.remove(buffer)));
    }

    /// Notes a kernel, and tells what must come before it.
    pub(super) fn kernel(&mut self, uses: &[Use]) -> Option<Barrier> {
        let barrier = self.conflict(uses, self.now).then(|| match self.copied {
            true => self.everything(),
            false => {
                self.now += 1;
                Barrier::Kernels
            }
        });
        uses.iter().for_each(|used| self.note(*used));
        barrier
    }

    /// Notes a copy or a clear, and tells what must come before it.
    pub(super) fn copy(&mut self, from: Option<Use>, to: Use) -> Option<Barrier> {
        let uses = [from.unwrap_or(to), to];
        // A barrier between kernels is none for copies.
        let barrier = self.conflict(&uses, self.all).then(|| self.everything());
        from.into_iter().chain([to]).for_each(|used| self.note(used));
        self.copied = true;
        barrier
    }

    /// Notes a barrier for everything.
    pub(super) fn everything(&mut self) -> Barrier {
        self.now += 1;
        self.all = self.now;
        self.copied = false;
        Barrier::All
    }

    /// Whether one of these buffers was written since then, or read and is to be written.
    fn conflict(&self, uses: &[Use], since: u64) -> bool {
        uses.iter().any(|&Use { place, writes }| {
            let LastUse { read, written } = self.used[place];
            written >= since || writes && read >= since
        })
    }

    fn note(&mut self, Use { place, writes }: Use) {
        let used = &mut self.used[place];
        match writes {
            true => used.written = self.now,
            false => used.read = self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(place: usize) -> Use {
        Use { place, writes: false }
    }

    fn writes(place: usize) -> Use {
        Use { place, writes: true }
    }

    fn hazards() -> Hazards {
        let mut hazards = Hazards::default();
        assert_eq!([7, 9, 8, 9].map(|buffer| hazards.place(buffer)), [0, 1, 2, 1]);
        hazards
    }

    #[test]
    fn what_is_read_after_a_write_and_written_after_any_use_waits() {
        let mut h = hazards();
        assert_eq!(h.kernel(&[reads(0), writes(1)]), None);
        assert_eq!(h.kernel(&[reads(0), writes(2)]), None, "both read");
        assert_eq!(h.kernel(&[reads(1)]), Some(Barrier::Kernels), "read after write");
        assert_eq!(h.kernel(&[reads(2)]), None, "there was a barrier");
        assert_eq!(h.kernel(&[writes(2)]), Some(Barrier::Kernels), "write after read");
        assert_eq!(h.kernel(&[writes(2)]), Some(Barrier::Kernels), "write after write");
        assert_eq!(h.kernel(&[writes(0)]), None);
    }

    #[test]
    fn a_barrier_between_kernels_is_none_for_copies() {
        let mut h = hazards();
        assert_eq!(h.kernel(&[writes(0)]), None);
        assert_eq!(h.kernel(&[reads(0), writes(1)]), Some(Barrier::Kernels));
        assert_eq!(h.copy(Some(reads(0)), writes(2)), Some(Barrier::All));
        assert_eq!(h.kernel(&[reads(1)]), None);
        assert_eq!(h.kernel(&[reads(2)]), Some(Barrier::All), "what was copied");
        assert_eq!(h.copy(None, writes(2)), Some(Barrier::All), "cleared after a read");
        assert_eq!(h.copy(Some(reads(2)), writes(1)), Some(Barrier::All), "copied after that");
        assert_eq!(h.everything(), Barrier::All);
        assert_eq!(h.copy(Some(reads(1)), writes(0)), None);
    }

    #[test]
    fn places_of_forgotten_buffers_are_used_again() {
        let mut h = hazards();
        h.forget(&[9, 100]);
        assert_eq!([11, 12, 7].map(|buffer| h.place(buffer)), [1, 3, 0]);
    }
}
