//! Which experts keep their slots: those that a window still has to take, and those that somebody
//! works on.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::stored::{ExpertSource, TakenExpert};
use std::sync::atomic::Ordering::SeqCst;
use store::{ExpertStore, Profile, StoreError};

/// The smallest store: four slots.
fn smallest(world: &World) -> ExpertStore {
    let Err(StoreError::TooSmall { need, .. }) = world.try_store(0, 2) else { panic!() };
    let store = world.try_store(need, 2).unwrap();
    assert_eq!(store.size().slots, 4);
    store
}

fn want(store: &ExpertStore, layer: usize, experts: &[usize]) {
    store.want(layer, &mut experts.iter().copied(), 1);
}

fn take_all(store: &ExpertStore) -> Vec<Vec<TakenExpert>> {
    let mut all = Vec::new();
    loop {
        let mut taken = Vec::new();
        store.take(&mut taken).unwrap();
        if taken.is_empty() {
            return all;
        }
        all.push(taken);
    }
}

#[test]
fn what_a_window_still_has_to_take_is_not_dropped_for_what_it_has_to_read() {
    let world = World::new(1, 8);
    let store = smallest(&world);
    want(&store, 0, &[0, 1, 2, 3]);
    take_all(&store);
    let before = store.counters();
    want(&store, 0, &[4, 0, 1, 5]);
    take_all(&store);
    let counters = store.counters().since(&before);
    let expert = world.layout.layers[0].expert_bytes() as u64;
    assert_eq!((counters.held, counters.bytes, counters.dropped), (2, 2 * expert, 2));
}

#[test]
fn what_is_worked_on_keeps_its_memory_and_others_wait() {
    let world = World::new(1, 8);
    let store = smallest(&world);
    want(&store, 0, &[0, 1, 2, 3]);
    let held = take_all(&store);
    let before = store.counters();
    want(&store, 0, &[4, 5]);
    store.expect(0, &[6]);
    let counters = store.counters().since(&before);
    assert_eq!((store.size().held, counters.dropped), (4, 0));
    for TakenExpert { place, parts } in held.iter().flatten() {
        let want = world.parts(0, *place);
        assert!(parts.iter().zip(want).all(|(found, want)| found[..] == *want));
    }
    drop(held);
    assert_eq!(take_all(&store).iter().map(Vec::len).sum::<usize>(), 2);
    assert_eq!(store.counters().since(&before).dropped, 2);
}

#[test]
fn half_of_the_slots_are_given_out_at_once() {
    let world = World::new(1, 8);
    let store = smallest(&world);
    want(&store, 0, &[0, 1, 2, 3]);
    take_all(&store);
    want(&store, 0, &[0, 1, 2, 3]);
    assert!(take_all(&store).iter().all(|taken| taken.len() <= 2));
}

#[test]
fn a_guess_that_is_wanted_before_it_is_read_was_not_in_vain_and_is_not_a_guess_any_more() {
    let world = World::new(4, 8);
    let (store, faults) = world.faulty_store_on(100, 2, 1);
    faults.gate.store(0, SeqCst);
    // In the way of the guesses.
    want(&store, 0, &[7]);
    faults.pass(0);
    store.expect(1, &[1, 2]);
    want(&store, 1, &[2, 1]);
    faults.gate.store(usize::MAX, SeqCst);
    take_all(&store);
    want(&store, 2, &[0]);
    take_all(&store);
    let counters = store.counters();
    assert_eq!((counters.expected, counters.under_way, counters.in_vain), (0, 2, 0));
    // All of a layer's quarter is there for new ones.
    store.expect(1, &[3, 4]);
    while store.size().held < 6 {
        std::thread::yield_now();
    }
}

#[test]
fn prompts_drop_what_prompts_read_before_what_was_in_use() {
    let world = World::new(1, 16);
    let store = smallest(&world);
    want(&store, 0, &[0, 1]);
    take_all(&store);
    for first in [2, 4, 6, 8] {
        store.want(0, &mut (first..first + 2), 64);
        take_all(&store);
    }
    let mut held = [false; 16];
    store.resident(0, &mut held);
    assert!(held[0] && held[1], "{held:?}");
}

#[test]
fn a_file_that_is_written_to_is_noticed_by_the_system_s_own_word() {
    let world = World::new(1, 8);
    let store = smallest(&world);
    want(&store, 0, &[0]);
    take_all(&store);
    let mut bytes = world.bytes.clone();
    bytes.push(0);
    std::fs::write(world.path(), bytes).unwrap();
    want(&store, 0, &[1]);
    let error = store.take(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("was changed"), "{error}");
    // What was read before is what it was.
    want(&store, 0, &[0]);
    let taken = take_all(&store).remove(0);
    assert_eq!(taken[0].parts[0][..], *world.parts(0, 0)[0]);
}

#[test]
fn guesses_take_a_quarter_of_a_layer_s_slots() {
    let world = World::new(4, 8);
    let store = world.store(100, 2, Disks::Good);
    store.expect(1, &[0, 1, 2, 3, 4, 5, 6, 7]);
    store.expect(2, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for layer in [1, 2] {
        want(&store, layer, &[0, 1, 2, 3, 4, 5, 6, 7]);
        take_all(&store);
        let counters = store.counters();
        assert_eq!(counters.foreseen + counters.under_way, 2 * layer as u64);
    }
}

#[test]
fn hot_experts_of_earlier_runs_fill_free_slots_and_drive_nothing_out() {
    let world = World::new(1, 8);
    let store = smallest(&world);
    want(&store, 0, &[0, 1]);
    take_all(&store);
    store.warm(&Profile { model: 0, uses: vec![0, 0, 1, 2, 3, 4, 5, 6] });
    while store.size().held < 4 {
        std::thread::yield_now();
    }
    // What is wanted now is read after all that is warm.
    want(&store, 0, &[0, 1, 7, 6]);
    take_all(&store);
    let counters = store.counters();
    assert_eq!((counters.held, counters.dropped), (4, 0));
}

#[test]
fn slots_take_no_more_memory_than_is_given() {
    let world = World::new(4, 16);
    let Err(StoreError::TooSmall { need, .. }) = world.try_store(0, 2) else { panic!() };
    let most = ExpertStore::most(&world.layout);
    assert_eq!(need, ExpertStore::least(&world.layout, 2));
    for bytes in (need..most + 100_000).step_by(7001) {
        let size = world.try_store(bytes, 2).unwrap().size();
        assert!(size.bytes <= bytes, "{size:?} of {bytes}");
        assert!(bytes < most || size.slots == size.experts, "{size:?} of {bytes}");
    }
}
