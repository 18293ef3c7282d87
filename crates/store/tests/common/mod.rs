//! A file of experts whose every byte is known, and disks that treat it badly.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use store::{
    Disk, ExpertStore, FileDisk, LayerLayout, Layout, Matrices, Stack, StoreError, StoreOptions,
    Way,
};

/// A model's worth of experts in a file, some layers fused, some with matrices of another size.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) bytes: Vec<u8>,
    pub(crate) layout: Layout,
    file: tempfile::NamedTempFile,
}

/// How a disk behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disks {
    Good,
    /// Reads end wherever they like.
    Short,
}

impl World {
    pub(crate) fn new(layers: usize, experts: usize) -> Self {
        // No size or place is a multiple of the disk's block.
        let mut offset = 777;
        let mut stack = |bytes: usize| {
            let stack = Stack { file: 0, offset, expert_bytes: bytes };
            offset += (experts * bytes) as u64 + 13;
            stack
        };
        let layers = (0..layers)
            .map(|layer| {
                let matrices = match layer % 3 {
                    2 => Matrices::Fused([stack(5000), stack(3000)]),
                    _ => Matrices::Separate([stack(2500), stack(2500), stack(9001)]),
                };
                LayerLayout { experts, matrices }
            })
            .collect();
        let bytes: Vec<u8> = (0..offset as u32 + 5000)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let layout = Layout { files: vec![file.path().to_owned()], layers };
        Self { bytes, layout, file }
    }

    /// Gate, up and down of an expert, straight from the bytes.
    pub(crate) fn parts(&self, layer: usize, expert: usize) -> [&[u8]; 3] {
        let of = |stack: &Stack| {
            let first = stack.offset as usize + expert * stack.expert_bytes;
            &self.bytes[first..first + stack.expert_bytes]
        };
        match &self.layout.layers[layer].matrices {
            Matrices::Separate([gate, up, down]) => [of(gate), of(up), of(down)],
            Matrices::Fused([both, down]) => {
                let (gate, up) = of(both).split_at(both.expert_bytes / 2);
                [gate, up, of(down)]
            }
        }
    }

    /// A store with about `slots` slots.
    pub(crate) fn store(&self, slots: usize, used: usize, disks: Disks) -> ExpertStore {
        self.store_on(slots, used, 3, disks)
    }

    pub(crate) fn store_on(
        &self,
        slots: usize,
        used: usize,
        threads: usize,
        disks: Disks,
    ) -> ExpertStore {
        let bytes = self.memory(slots, used);
        let options = StoreOptions { bytes, used, threads };
        let disk = match disks {
            Disks::Good => self.disk(Way::Direct),
            Disks::Short => {
                let faults = Arc::new(Faults { short: true.into(), ..Faults::new() });
                self.faulty_disk(&faults)
            }
        };
        ExpertStore::new(&self.layout, vec![disk], options).unwrap()
    }

    pub(crate) fn faulty_store(&self, slots: usize, used: usize) -> (ExpertStore, Arc<Faults>) {
        self.faulty_store_on(slots, used, 3)
    }

    pub(crate) fn faulty_store_on(
        &self,
        slots: usize,
        used: usize,
        threads: usize,
    ) -> (ExpertStore, Arc<Faults>) {
        let faults = Arc::new(Faults::new());
        let bytes = self.memory(slots, used);
        let options = StoreOptions { bytes, used, threads };
        let disk = self.faulty_disk(&faults);
        (ExpertStore::new(&self.layout, vec![disk], options).unwrap(), faults)
    }

    pub(crate) fn try_store(&self, bytes: u64, used: usize) -> Result<ExpertStore, StoreError> {
        let options = StoreOptions { bytes, used, threads: 2 };
        ExpertStore::new(&self.layout, vec![self.disk(Way::Cached)], options)
    }

    /// The file, and nothing wrong with it.
    pub(crate) fn disk(&self, way: Way) -> Box<dyn Disk> {
        Box::new(FileDisk::open(self.file.path(), way).unwrap())
    }

    pub(crate) fn faulty_disk(&self, faults: &Arc<Faults>) -> Box<dyn Disk> {
        let disk = FileDisk::open(self.file.path(), Way::Direct).unwrap();
        Box::new(FaultyDisk { disk, faults: faults.clone() })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Memory for the smallest store and some more slots.
    fn memory(&self, slots: usize, used: usize) -> u64 {
        let Err(StoreError::TooSmall { need, .. }) = self.try_store(0, used) else {
            panic!("nothing is enough");
        };
        need + slots as u64 * 40_000
    }
}

/// What a disk does wrong, as long as it is set.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) fail: AtomicBool,
    pub(crate) panic: AtomicBool,
    /// Of so many reads about one fails; none if this is 0.
    pub(crate) one_in: AtomicUsize,
    pub(crate) short: AtomicBool,
    pub(crate) changed: AtomicBool,
    /// Where the file ends.
    pub(crate) end: AtomicU64,
    /// Reads beyond so many wait until it is raised.
    pub(crate) gate: AtomicUsize,
    /// Reads begun.
    pub(crate) reads: AtomicUsize,
}

impl Faults {
    pub(crate) fn new() -> Self {
        Self {
            fail: false.into(),
            panic: false.into(),
            one_in: 0.into(),
            short: false.into(),
            changed: false.into(),
            end: u64::MAX.into(),
            gate: usize::MAX.into(),
            reads: 0.into(),
        }
    }

    /// Lets `more` reads through, and waits until one more has begun and stands at the gate.
    pub(crate) fn pass(&self, more: usize) {
        let gate = self.gate.fetch_add(more, SeqCst) + more;
        while self.reads.load(SeqCst) <= gate {
            std::thread::yield_now();
        }
    }
}

#[derive(Debug)]
struct FaultyDisk {
    disk: FileDisk,
    faults: Arc<Faults>,
}

impl Disk for FaultyDisk {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Faults { fail, short, end, gate, reads, .. } = &*self.faults;
        let number = reads.fetch_add(1, SeqCst);
        while number >= gate.load(SeqCst) {
            std::thread::yield_now();
        }
        assert!(!self.faults.panic.load(SeqCst), "a fault of the program");
        let one_in = self.faults.one_in.load(SeqCst);
        let fails = one_in > 0 && ((number * 0x9e37_79b9) >> 8) % one_in == 0;
        if fail.load(SeqCst) || fails {
            return Err(io::Error::other("the disk is on fire"));
        }
        if short.load(SeqCst) && number % 3 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.disk.read_at(buffer, offset)?;
        let count = count.min(end.load(SeqCst).saturating_sub(offset) as usize);
        let cut =
            if short.load(SeqCst) && number % 3 == 0 { 4097 + number * 31 % 4096 } else { count };
        Ok(count.min(cut))
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(!self.faults.changed.load(SeqCst))
    }

    fn path(&self) -> &Path {
        self.disk.path()
    }
}
