//! Experts that are read before anybody wants them, when what was guessed fails, is wanted half
//! way, or comes from a list of somebody else: nobody waits for ever, and no slot is lost.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::stored::{ExpertSource, TakenExpert};
use std::sync::atomic::Ordering::SeqCst;
use store::{ExpertStore, Profile, StoreSize};

fn check(store: &ExpertStore, world: &World, layer: usize, experts: &[usize]) {
    store.want(layer, &mut experts.iter().copied(), 1);
    take(store, world, layer, experts);
}

fn take(store: &ExpertStore, world: &World, layer: usize, experts: &[usize]) {
    let (mut taken, mut count): (Vec<TakenExpert>, usize) = (Vec::new(), 0);
    loop {
        store.take(&mut taken).unwrap();
        if taken.is_empty() {
            break;
        }
        for TakenExpert { place, parts } in &taken {
            let want = world.parts(layer, experts[*place]);
            assert!(parts.iter().zip(want).all(|(found, want)| found[..] == *want));
        }
        count += taken.len();
    }
    assert_eq!(count, experts.len());
}

#[test]
fn a_guess_of_which_a_part_failed_is_read_again_once_when_it_is_wanted() {
    let world = World::new(2, 8);
    // On one thread reads come in the order in which they were asked for.
    for failing in 0..3 {
        let (store, faults) = world.faulty_store_on(16, 2, 1);
        faults.gate.store(0, SeqCst);
        store.expect(0, &[5]);
        faults.pass(failing);
        // The last part fails when it is wanted already, the others before.
        let wants = || store.want(0, &mut [5].into_iter(), 1);
        if failing == 2 {
            wants();
        }
        faults.fail.store(true, SeqCst);
        faults.gate.fetch_add(1, SeqCst);
        while store.counters().failed == 0 {
            std::thread::yield_now();
        }
        faults.fail.store(false, SeqCst);
        if failing < 2 {
            wants();
        }
        faults.gate.store(usize::MAX, SeqCst);
        take(&store, &world, 0, &[5]);
        // Each read has a job of its own: none was taken away by what is left of the guess.
        for round in 0..4 {
            let experts: Vec<usize> = (0..8).filter(|e| (e + round) % 2 == 0).collect();
            check(&store, &world, 0, &experts);
            check(&store, &world, 1, &experts);
        }
    }
}

#[test]
fn a_list_of_more_experts_than_the_model_has_does_no_harm() {
    let world = World::new(2, 8);
    let store = world.store(100, 2, Disks::Good);
    // As of a run with a drafting block, whose experts are a layer more and the most used.
    store.warm(&Profile { model: 1, uses: (0..3 * 8).collect() });
    store.warm(&Profile { model: 1, uses: (0..1 << 20).collect() });
    for layer in 0..2 {
        check(&store, &world, layer, &[0, 1, 2, 3, 4, 5, 6, 7]);
    }
    while store.size().held < 16 {
        std::thread::yield_now();
    }
    assert_eq!(store.counters().bytes, world.layout.bytes());
}

#[test]
fn guesses_given_up_before_they_began_were_not_read() {
    let world = World::new(4, 8);
    let (store, faults) = world.faulty_store_on(100, 2, 1);
    faults.gate.store(0, SeqCst);
    store.expect(0, &[1, 2]);
    faults.pass(0);
    let before = store.counters();
    // The first is under way by now, the second is not.
    store.want(0, &mut [7].into_iter(), 1);
    faults.gate.store(usize::MAX, SeqCst);
    take(&store, &world, 0, &[7]);
    let counters = store.counters();
    assert_eq!((counters.expected, counters.in_vain), (1, 1));
    assert_eq!(counters.since(&before).expected, 0);
    check(&store, &world, 0, &[1, 2]);
}

#[test]
fn a_reader_that_panics_leaves_nobody_waiting() {
    let world = World::new(2, 8);
    let (store, faults) = world.faulty_store_on(4, 2, 2);
    faults.panic.store(true, SeqCst);
    for _ in 0..3 {
        store.want(0, &mut [1, 2, 3].into_iter(), 1);
        let error = store.take(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("panicked"), "{error}");
    }
    faults.panic.store(false, SeqCst);
    check(&store, &world, 0, &[1, 2, 3]);
}

/// A part of an expert fails while the others are read, over and over: no slot is lost, and no
/// buffer ends where a larger one belongs.
#[test]
fn faults_at_times_cost_no_slots() {
    let world = World::new(3, 8);
    let (store, faults) = world.faulty_store_on(4, 2, 3);
    for round in 0..300 {
        let (layer, first) = (round % 3, round % 5);
        store.expect((layer + 1) % 3, &[first as u32, 7]);
        faults.one_in.store([0, 5, 2][round % 3 * (round % 7) % 3], SeqCst);
        store.want(layer, &mut (first..first + 3), if round % 4 == 0 { 64 } else { 1 });
        let mut taken: Vec<TakenExpert> = Vec::new();
        while store.take(&mut taken).is_ok_and(|()| !taken.is_empty()) {
            for TakenExpert { place, parts } in &taken {
                let want = world.parts(layer, first + place);
                assert!(parts.iter().zip(want).all(|(found, want)| found[..] == *want));
            }
        }
    }
    assert!(store.counters().failed > 0);
    faults.one_in.store(0, SeqCst);
    for _ in 0..2 {
        for layer in 0..3 {
            check(&store, &world, layer, &[0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }
    let StoreSize { held, slots, .. } = store.size();
    assert_eq!(held, slots);
}
