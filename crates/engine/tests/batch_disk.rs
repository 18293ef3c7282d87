//! Many requests at once over a store with the smallest memory that works, on a disk that fails at
//! times: a request gets the text that it gets alone or a typed error, and when the disk is well
//! again so are all that come then.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use ::cpu::{Cpu, Isa};
use common::jobs::*;
use common::{cpu, root};
use engine::DraftingBlock::Loaded;
use engine::batch::{Job, JobId, Limits, Scheduler, SlotView};
use engine::cache::StateCache;
use engine::store::{Disk, FileDisk, StoreError, StoreSize, Way};
use engine::{Engine, EngineConfig, Error, NormExtent, StoreSettings, Stores, WeightHomes};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::Tokenizer;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A disk of whose reads about one in `one_in` fails; none if that is 0.
#[derive(Debug)]
struct Flaky {
    disk: FileDisk,
    one_in: Arc<AtomicUsize>,
    seed: Mutex<u64>,
}

impl Disk for Flaky {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let one_in = self.one_in.load(SeqCst);
        let mut seed = self.seed.lock().unwrap();
        let mut dice = Dice(*seed);
        let fails = one_in > 0 && dice.roll(one_in) == 0;
        *seed = dice.0;
        drop(seed);
        if fails {
            return Err(io::Error::other("a bad sector"));
        }
        self.disk.read_at(buffer, offset)
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        self.disk.is_unchanged()
    }

    fn path(&self) -> &Path {
        self.disk.path()
    }
}

fn stores(checkpoint: &Checkpoint, one_in: &Arc<AtomicUsize>) -> Stores {
    let open = |path: &Path| -> Result<Box<dyn Disk>, StoreError> {
        let disk = FileDisk::open(path, Way::Direct)?;
        Ok(Box::new(Flaky { disk, one_in: one_in.clone(), seed: Mutex::new(7) }))
    };
    let open = |experts| {
        let defaults = StoreSettings::default();
        let settings = StoreSettings { experts: Some(experts), table: 0, threads: 4, ..defaults };
        Stores::open_on(checkpoint, Loaded, settings, &open)
    };
    let Err(Error::Store(StoreError::TooSmall { need, .. })) = open(0) else { panic!() };
    open(need).unwrap()
}

/// The sample model over the smallest memory that works, on a disk of which one read in `one_in`
/// fails.
fn scheduler_on(one_in: &Arc<AtomicUsize>) -> (Scheduler<Cpu>, Vec<Job>, Stores) {
    let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let jobs = sixteen(&tokenizer);
    let config = EngineConfig {
        slots: 8,
        context: 400,
        chunk: 48,
        deferred: 9,
        mtp: Some(NormExtent::Whole),
        ..EngineConfig::default()
    };
    let stores = stores(&checkpoint, one_in);
    let homes = WeightHomes { stores: Some(stores.clone()), split: None };
    let backend = cpu(2, Isa::detect());
    let engine = Engine::with_homes(backend, &checkpoint, config, homes, &mut |_| {}).unwrap();
    let scheduler = Scheduler::new(engine, tokenizer, Limits::default())
        .with_cache(StateCache::for_states(4 << 20));
    (scheduler, jobs, stores)
}

#[test]
fn what_the_disk_says_is_told_to_all_whose_drafts_it_broke() {
    let one_in = Arc::new(AtomicUsize::new(0));
    let (mut scheduler, jobs, _) = scheduler_on(&one_in);
    let drafting: Vec<Job> =
        jobs.into_iter().map(|job| Job { drafts: "mtp:3".parse().unwrap(), ..job }).collect();
    let ids: Vec<JobId> =
        drafting.iter().map(|job| scheduler.submit(job.clone()).unwrap()).collect();
    let mut log = Log::default();
    // All eight slots draft when it goes bad.
    let answers = |slot: SlotView| matches!(slot, SlotView::Answer { .. });
    while !scheduler.slots().all(answers) {
        log.step(&mut scheduler);
    }
    one_in.store(1, SeqCst);
    log.run(&mut scheduler);
    for id in ids {
        let error = log.failed.get(&id).map(ToString::to_string).unwrap_or_default();
        assert!(error.contains("bad sector") || log.done.contains_key(&id), "{error}");
    }
    assert!(log.failed.len() >= 8);
}

#[test]
fn requests_get_their_own_text_or_an_error_whatever_the_disk_does() {
    let one_in = Arc::new(AtomicUsize::new(0));
    let (mut scheduler, jobs, stores) = scheduler_on(&one_in);
    let expected = solo(&jobs);
    let mut failures = 0;
    for often in [0, 40, 3000, 400, 20_000, 0] {
        one_in.store(often, SeqCst);
        let submit = |job: &Job| scheduler.submit(job.clone()).unwrap();
        let ids: Vec<JobId> = jobs.iter().map(submit).collect();
        let mut log = Log::default();
        log.run(&mut scheduler);
        for (i, (id, (tokens, text))) in ids.iter().zip(&expected).enumerate() {
            match log.failed.get(id) {
                None => {
                    assert_eq!(&log.done[id].tokens, tokens, "request {i}, one in {often}");
                    assert_eq!(log.text(*id), text, "request {i}, one in {often}");
                }
                Some(error) => {
                    assert!(often > 0, "request {i} on a good disk: {error}");
                    failures += 1;
                    // What was said until then was right.
                    assert!(text.starts_with(log.text(*id)), "request {i}, one in {often}");
                    assert!(error.to_string().contains("bad sector"), "{error}");
                }
            }
        }
        assert!(scheduler.is_idle());
        let StoreSize { held, slots, .. } = stores.experts().unwrap().size();
        assert!(held <= slots);
    }
    let counters = stores.counters();
    assert!(failures >= 16 && counters.failed > 0, "{failures} of {counters:?}");
    assert!(counters.dropped > 0);
}
