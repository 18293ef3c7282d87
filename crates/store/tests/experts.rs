//! A store of experts over disks that are slow, cut reads short, or fail: what is taken is what the
//! file has, or an error says why there is nothing.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::stored::{ExpertSource, TakenExpert};
use proptest::prelude::*;
use std::sync::atomic::Ordering::SeqCst;
use store::{ExpertStore, StoreError, StoreSize};

/// Takes all that was wanted, checks every byte, and returns the number.
fn take_all(store: &ExpertStore, world: &World, layer: usize, experts: &[usize]) -> usize {
    let mut taken: Vec<TakenExpert> = Vec::new();
    let mut seen = vec![false; experts.len()];
    loop {
        store.take(&mut taken).unwrap();
        if taken.is_empty() {
            break;
        }
        for TakenExpert { place, parts } in &taken {
            assert!(!std::mem::replace(&mut seen[*place], true), "expert {place} came twice");
            let want = world.parts(layer, experts[*place]);
            for (found, want) in parts.iter().zip(&want) {
                assert!(found[..] == want[..], "layer {layer} expert {}", experts[*place]);
            }
        }
    }
    assert!(seen.iter().all(|&seen| seen), "{seen:?}");
    experts.len()
}

fn want(store: &ExpertStore, layer: usize, experts: &[usize], rows: usize) {
    store.want(layer, &mut experts.iter().copied(), rows);
}

#[test]
fn every_expert_is_what_the_file_has() {
    let world = World::new(3, 8);
    for slots in [4, 7, 100] {
        let store = world.store(slots, 2, Disks::Good);
        for round in 0..5 {
            for layer in 0..world.layout.layers.len() {
                let experts: Vec<usize> = (0..8).filter(|e| (e + round + layer) % 3 > 0).collect();
                want(&store, layer, &experts, if round % 2 == 0 { 1 } else { 100 });
                take_all(&store, &world, layer, &experts);
            }
        }
        let counters = store.counters();
        assert!(counters.held <= counters.wanted && counters.failed == 0);
        let StoreSize { held, slots, .. } = store.size();
        assert!(held <= slots);
        if slots == 24 {
            assert_eq!(counters.dropped, 0);
            assert_eq!(counters.bytes, world.layout.bytes());
        }
    }
}

#[test]
fn short_reads_go_on_where_they_ended() {
    let world = World::new(2, 6);
    let store = world.store(4, 2, Disks::Short);
    for layer in 0..2 {
        want(&store, layer, &[0, 1, 2, 3, 4, 5], 1);
        take_all(&store, &world, layer, &[0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_read_that_fails_is_an_error_for_who_wants_it_and_for_nobody_else() {
    let world = World::new(2, 6);
    let (store, faults) = world.faulty_store(4, 2);
    want(&store, 0, &[1, 2], 1);
    take_all(&store, &world, 0, &[1, 2]);
    faults.fail.store(true, SeqCst);
    // Held ones need no disk.
    want(&store, 0, &[1, 2], 1);
    take_all(&store, &world, 0, &[1, 2]);
    want(&store, 1, &[0, 3], 1);
    let error = taken_error(&store);
    assert!(error.contains("reading") && error.contains("check the disk"), "{error}");
    // Nothing is wanted any more; what was expected fails in silence.
    let mut taken = Vec::new();
    store.take(&mut taken).unwrap();
    assert!(taken.is_empty());
    store.expect(1, &[5]);
    faults.fail.store(false, SeqCst);
    for _ in 0..3 {
        want(&store, 1, &[0, 3, 5], 1);
        take_all(&store, &world, 1, &[0, 3, 5]);
    }
    assert!(store.counters().failed > 0);
}

#[test]
fn a_file_that_ends_too_early_or_was_written_to_is_told() {
    let world = World::new(2, 6);
    let (store, faults) = world.faulty_store(4, 2);
    faults.end.store(world.bytes.len() as u64 / 2, SeqCst);
    want(&store, 1, &[4, 5], 1);
    assert!(taken_error(&store).contains("cut short"));
    faults.end.store(u64::MAX, SeqCst);
    faults.changed.store(true, SeqCst);
    want(&store, 1, &[4, 5], 1);
    assert!(taken_error(&store).contains("was changed"));
    faults.changed.store(false, SeqCst);
    want(&store, 1, &[4, 5], 1);
    take_all(&store, &world, 1, &[4, 5]);
}

fn taken_error(store: &ExpertStore) -> String {
    let mut taken = Vec::new();
    loop {
        match store.take(&mut taken) {
            Ok(()) => assert!(!taken.is_empty(), "all came, though the disk is bad"),
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn what_was_expected_is_there_and_what_was_expected_in_vain_goes_first() {
    let world = World::new(4, 16);
    // A quarter of a layer's slots is for guesses: three need twelve.
    let store = world.store(100, 2, Disks::Good);
    want(&store, 0, &[0, 1], 1);
    store.expect(1, &[3, 4, 5]);
    take_all(&store, &world, 0, &[0, 1]);
    while store.size().held < 5 {
        std::thread::yield_now();
    }
    want(&store, 1, &[3, 4, 9], 1);
    take_all(&store, &world, 1, &[3, 4, 9]);
    want(&store, 2, &[0], 1);
    take_all(&store, &world, 2, &[0]);
    let counters = store.counters();
    assert_eq!((counters.wanted, counters.held, counters.foreseen), (6, 2, 2));
    assert_eq!((counters.expected, counters.in_vain), (3, 1));
    let mut held = vec![false; 16];
    store.resident(1, &mut held);
    let held: Vec<usize> = (0..16).filter(|&e| held[e]).collect();
    assert_eq!(held, [3, 4, 5, 9]);
    // Numbers beyond the model are passed over.
    store.expect(99, &[1]);
    store.expect(1, &[99]);
}

#[test]
fn too_little_memory_is_refused_with_what_would_do() {
    let world = World::new(2, 8);
    let error = world.try_store(0, 2).unwrap_err();
    let StoreError::TooSmall { have: 0, need, used: 2 } = error else { panic!("{error}") };
    assert!(world.try_store(need - 1, 2).is_err());
    let store = world.try_store(need, 2).unwrap();
    want(&store, 0, &[0, 1, 2, 3, 4, 5, 6, 7], 50);
    take_all(&store, &world, 0, &[0, 1, 2, 3, 4, 5, 6, 7]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever windows want, whatever is expected, on a disk that is at times cut short: every
    /// expert is the file's, and no more slots are used than there are.
    #[test]
    fn any_order_of_windows_and_guesses(
        steps in prop::collection::vec(
            (0..3_usize, prop::collection::btree_set(0..8_usize, 1..8), 0..3_usize,
             prop::collection::vec(0..8_u32, 0..6), prop::bool::ANY), 1..25),
        slots in 4..20_usize,
        threads in 1..4_usize,
    ) {
        let world = World::new(3, 8);
        let store = world.store_on(slots, 2, threads, Disks::Short);
        for (layer, experts, later, guesses, prompt) in steps {
            let experts: Vec<usize> = experts.into_iter().collect();
            want(&store, layer, &experts, if prompt { 64 } else { 1 });
            store.expect((layer + later) % 3, &guesses);
            take_all(&store, &world, layer, &experts);
            let StoreSize { held, slots, .. } = store.size();
            prop_assert!(held <= slots);
        }
    }
}
