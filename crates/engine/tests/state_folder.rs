//! States on disk: what comes back is what was saved, and what is not whole is left alone.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::cache::{Loaded, Recalled, StateCache, StateFolder};
use engine::speculation::Head;
use engine::{DraftStep, Engine, EngineConfig, NormExtent, Piece, Snapshot, Want};
use gguf::Gguf;
use model::Checkpoint;
use std::path::{Path, PathBuf};

/// A new, empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn drafting_engine() -> Engine<Cpu> {
    let open = |name: &str| Gguf::open(fixture(name)).unwrap();
    let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
    let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
    let config = EngineConfig { deferred: 9, mtp: Some(NormExtent::Whole), ..config(1, 64) };
    Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap()
}

fn saved(engine: &mut Engine<Cpu>, tokens: &[u32]) -> (Vec<Piece>, Snapshot) {
    engine.reset(0).unwrap();
    engine.prefill(0, tokens, Want::Nothing).unwrap();
    let snapshot = engine.snapshot(0).unwrap();
    let pieces = (0..snapshot.pieces()).map(|i| engine.piece(0, i).unwrap()).collect();
    (pieces, snapshot)
}

/// State, drafts and logits of what follows.
fn future(engine: &mut Engine<Cpu>) -> (u64, Vec<u32>, Vec<u32>) {
    let (hash, mut drafts) = (engine.state_hash(0).unwrap(), Vec::new());
    if engine.has_mtp() {
        engine.draft(&[DraftStep { slot: 0, token: 3 }], Head::Full, &mut drafts).unwrap();
    }
    let logits = engine.prefill(0, &[3, 1, 4, 1, 5], Want::All).unwrap();
    (hash, bits(&drafts), bits(&logits))
}

fn load(store: &StateFolder, engine: &Engine<Cpu>) -> (Loaded, StateCache) {
    let mut cache = StateCache::for_states(64 << 20);
    (store.load(engine, &mut cache).unwrap(), cache)
}

#[test]
fn a_state_outlives_the_program() {
    let store = StateFolder::open(&folder("outlives"), "a").unwrap();
    let text = prompt("tiny-f32", "long");
    let (drafting, plain) = (drafting_engine, || cpu_engine("quantmix", config(1, 64)));
    for make in [&drafting as &dyn Fn() -> Engine<Cpu>, &plain] {
        let mut engine = make();
        for len in [70, 150] {
            let (pieces, snapshot) = saved(&mut engine, &text[..len]);
            store.save(&pieces, &snapshot).unwrap();
        }
        let expected = future(&mut engine);
        let mut engine = make();
        let (loaded, mut cache) = load(&store, &engine);
        assert_eq!(loaded.states, 2);
        let recalled = engine.recall(0, Some(&mut cache), &text).unwrap();
        assert_eq!(recalled, Recalled::Restored(150));
        assert!(future(&mut engine) == expected);
    }
    // The other model's files were left alone, each with a line of its own.
    let (loaded, _) = load(&store, &plain());
    assert_eq!((loaded.states, loaded.ignored.len()), (2, 2));
    assert!(loaded.ignored.iter().all(|line| line.contains("another model")), "{loaded:?}");
}

#[test]
fn fault_061_cut_damaged_stale_and_foreign_files_are_ignored() {
    let path = folder("damaged");
    let store = StateFolder::open(&path, "a").unwrap();
    let mut engine = drafting_engine();
    let (pieces, snapshot) = saved(&mut engine, &prompt("tiny-f32", "budget_edge"));
    let file = store.save(&pieces, &snapshot).unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "nothing unfinished is left");
    let good = std::fs::read(&file).unwrap();
    assert_eq!(load(&store, &engine).0, Loaded { states: 1, ignored: Vec::new() });
    let other = StateFolder::open(&path, "b").unwrap();
    assert!(load(&other, &engine).0.ignored[0].contains("other settings"));

    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), good[..7].to_vec(), b"GGUF".repeat(9)];
    damaged.extend([8, 100, good.len() / 2, good.len() - 1].map(|len| good[..len].to_vec()));
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        damaged.push(bytes);
    }
    damaged.push([&good[..], &[0; 8]].concat());
    for (i, bytes) in damaged.iter().enumerate() {
        std::fs::write(&file, bytes).unwrap();
        let (loaded, cache) = load(&store, &engine);
        assert_eq!((loaded.states, loaded.ignored.len(), cache.bytes()), (0, 1, 0), "case {i}");
        assert_eq!(loaded.ignored[0].lines().count(), 1);
    }
    // What a program left that was stopped while it wrote.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(file.with_extension("1.tmp"), &good[..9]).unwrap();
    assert_eq!(load(&store, &engine).0, Loaded::default());
}

#[test]
fn a_cache_without_room_says_so() {
    let store = StateFolder::open(&folder("room"), "").unwrap();
    let mut engine = cpu_engine("quantmix", config(1, 64));
    let (pieces, snapshot) = saved(&mut engine, &prompt("quantmix", "chunk"));
    store.save(&pieces, &snapshot).unwrap();
    let loaded = store.load(&engine, &mut StateCache::for_states(1000)).unwrap();
    assert!(loaded.states == 0 && loaded.ignored[0].contains("no room"), "{loaded:?}");
}
