//! Tokens on trial: whatever is accepted or rejected, what follows has the bits of a run that never
//! tried anything.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::{Engine, EngineConfig, Error, Feed, NormExtent, Want};
use kernels::Backend;
use kernels::reference::Reference;

const DEFERRED: usize = 9;

fn trial_config(slots: usize) -> EngineConfig {
    EngineConfig { deferred: DEFERRED, ..config(slots, 64) }
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}

/// Feeds `tokens` in windows of which some are on trial with wrong tokens behind the right ones.
/// Returns the logits of all right tokens and the state's hash.
fn through_trials<B: Backend>(
    engine: &mut Engine<B>,
    slot: usize,
    tokens: &[u32],
    dice: &mut Dice,
) -> (Vec<u32>, u64) {
    let vocab = engine.hyper_params().vocab;
    engine.reset(slot).unwrap();
    let mut all = Vec::new();
    let mut done = 0;
    while done < tokens.len() {
        let right = (1 + dice.roll(5)).min(tokens.len() - done);
        if dice.roll(4) == 0 {
            let feed = Feed::new(slot, &tokens[done..done + right], Want::All);
            all.extend(engine.forward(&[feed]).unwrap());
            done += right;
            continue;
        }
        let mut tried = tokens[done..done + right].to_vec();
        for _ in 0..dice.roll(DEFERRED - right + 1) {
            tried.push(dice.roll(vocab) as u32);
        }
        let logits = engine.forward(&[Feed::deferred(slot, &tried)]).unwrap();
        // Nothing is lost when everything is taken back, and it may be tried once more.
        let accepted = if dice.roll(6) == 0 { 0 } else { right };
        engine.decide(slot, accepted).unwrap();
        all.extend(&logits[..accepted * vocab]);
        done += accepted;
        assert_eq!(engine.history(slot).unwrap(), &tokens[..done]);
        if dice.roll(8) == 0 {
            engine.settle(slot).unwrap();
        }
    }
    (bits(&all), engine.state_hash(slot).unwrap())
}

fn check<B: Backend>(engine: &mut Engine<B>, model: &str, rounds: u64) {
    for name in ["eos", "budget_edge"] {
        let tokens = prompt(model, name);
        let plain = bits(&logits_in_chunks(engine, &tokens, &[1]));
        let hash = engine.state_hash(0).unwrap();
        for seed in 0..rounds {
            let (logits, after) = through_trials(engine, 0, &tokens, &mut Dice(seed));
            assert!(logits == plain, "{model} {name}, trials {seed}: logits");
            assert_eq!(after, hash, "{model} {name}, trials {seed}: states");
        }
    }
}

#[test]
fn fault_016_fault_022_rejected_tokens_leave_no_trace() {
    for model in MODELS {
        for isa in Isa::available() {
            let mut engine = engine_on(cpu(2, isa), model, trial_config(1));
            check(&mut engine, model, if isa == Isa::detect() { 12 } else { 2 });
        }
    }
}

#[test]
fn a_reset_forgets_what_is_on_trial_and_what_was_accepted() {
    let tokens = prompt("tiny-f32", "eos");
    let mut engine = engine_on(cpu(2, Isa::detect()), "tiny-f32", trial_config(1));
    let plain = bits(&logits_in_chunks(&mut engine, &tokens, &[1]));
    let hash = engine.state_hash(0).unwrap();
    for accepted in [None, Some(0), Some(3)] {
        engine.forward(&[Feed::deferred(0, &[1, 2, 3, 4])]).unwrap();
        if let Some(count) = accepted {
            engine.decide(0, count).unwrap();
        }
        let found = bits(&logits_in_chunks(&mut engine, &tokens, &[1]));
        assert!(found == plain, "{accepted:?} accepted before");
        assert_eq!(engine.state_hash(0).unwrap(), hash);
    }
}

#[test]
fn the_longest_trials_replay_before_trials_just_as_long() {
    const LONGEST: usize = 16;
    let tokens = prompt("quantmix", "chunk");
    let config = EngineConfig { deferred: LONGEST, ..config(1, 64) };
    let mut engine = engine_on(cpu(2, Isa::detect()), "quantmix", config);
    let vocab = engine.hyper_params().vocab;
    let plain = bits(&logits_in_chunks(&mut engine, &tokens, &[1]));
    let hash = engine.state_hash(0).unwrap();
    engine.reset(0).unwrap();
    let (mut done, mut found) = (0, Vec::new());
    for accepted in [16, 16, 0, 1, 16, 15, 16, 0].into_iter().cycle() {
        if done == tokens.len() {
            break;
        }
        let accepted = accepted.min(tokens.len() - done);
        let mut tried = tokens[done..done + accepted].to_vec();
        tried.resize(LONGEST, 9);
        let logits = engine.forward(&[Feed::deferred(0, &tried)]).unwrap();
        engine.decide(0, accepted).unwrap();
        found.extend(bits(&logits[..accepted * vocab]));
        done += accepted;
    }
    assert!(found == plain);
    assert_eq!(engine.state_hash(0).unwrap(), hash);
}

#[test]
fn the_reference_keeps_the_contract_too() {
    check(&mut engine_on(Reference, "tiny-f32", trial_config(1)), "tiny-f32", 1);
}

#[test]
fn fault_023_slots_on_trial_at_once_keep_their_own_rows() {
    let (a, b) = (prompt("tiny-f32", "eos"), prompt("tiny-f32", "repeat"));
    let mut engine = engine_on(cpu(2, Isa::detect()), "tiny-f32", trial_config(2));
    let vocab = engine.hyper_params().vocab;
    let mut solo = |tokens: &[u32]| {
        let logits = bits(&logits_in_chunks(&mut engine, tokens, &[1]));
        (logits, engine.state_hash(0).unwrap())
    };
    let expected = [solo(&a), solo(&b)];
    let sequences = [a, b];
    let mut dice = Dice(5);
    for slot in 0..2 {
        engine.reset(slot).unwrap();
    }
    let (mut done, mut found) = ([0, 0], [Vec::new(), Vec::new()]);
    while (0..2).any(|slot| done[slot] < sequences[slot].len()) {
        let live: Vec<usize> = (0..2).filter(|&slot| done[slot] < sequences[slot].len()).collect();
        let mut tried = Vec::new();
        for &slot in &live {
            let left = &sequences[slot][done[slot]..];
            let right = (1 + dice.roll(4)).min(left.len());
            let mut tokens = left[..right].to_vec();
            tokens.extend((0..dice.roll(4)).map(|_| dice.roll(vocab) as u32));
            tried.push((slot, right, tokens));
        }
        let feeds: Vec<_> =
            tried.iter().map(|(slot, _, tokens)| Feed::deferred(*slot, tokens)).collect();
        let logits = engine.forward(&feeds).unwrap();
        let mut row = 0;
        for (slot, right, tokens) in &tried {
            found[*slot].extend(bits(&logits[row * vocab..(row + right) * vocab]));
            row += tokens.len();
            engine.decide(*slot, *right).unwrap();
            done[*slot] += right;
        }
    }
    for (slot, (logits, hash)) in expected.into_iter().enumerate() {
        assert!(found[slot] == logits, "slot {slot}: logits");
        assert_eq!(engine.state_hash(slot).unwrap(), hash, "slot {slot}: states");
    }
}

#[test]
fn fault_024_impossible_decisions_are_refused() {
    let mut engine = engine_on(cpu(1, Isa::detect()), "tiny-f32", trial_config(1));
    let forward = |engine: &mut Engine<_>, feed: Feed<'_>| engine.forward(&[feed]).map(drop);
    assert!(matches!(
        engine.decide(0, 1),
        Err(Error::BadDecision { slot: 0, count: 1, on_trial: 0 })
    ));
    assert!(matches!(
        forward(&mut engine, Feed::deferred(0, &[1; DEFERRED + 1])),
        Err(Error::TooManyDeferred { rows: 10, limit: DEFERRED })
    ));
    forward(&mut engine, Feed::deferred(0, &[1, 2, 3])).unwrap();
    let next = Feed::new(0, &[4], Want::Last);
    assert!(matches!(forward(&mut engine, next), Err(Error::Undecided { slot: 0 })));
    assert!(matches!(engine.settle(0), Err(Error::Undecided { slot: 0 })));
    assert!(matches!(engine.decide(0, 4), Err(Error::BadDecision { on_trial: 3, .. })));
    assert!(matches!(engine.decide(1, 0), Err(Error::NoSlot { .. })));
    engine.decide(0, 2).unwrap();
    assert!(matches!(engine.decide(0, 1), Err(Error::BadDecision { on_trial: 0, .. })));
    assert_eq!(engine.history(0).unwrap(), [1, 2]);
    forward(&mut engine, next).unwrap();
    engine.reset(0).unwrap();
    assert!(engine.history(0).unwrap().is_empty());

    let mut none = engine_on(cpu(1, Isa::detect()), "tiny-f32", config(1, 8));
    assert!(matches!(
        forward(&mut none, Feed::deferred(0, &[1])),
        Err(Error::TooManyDeferred { rows: 1, limit: 0 })
    ));
    let mtp = EngineConfig { mtp: Some(NormExtent::Whole), ..trial_config(1) };
    assert!(!engine_on(cpu(1, Isa::detect()), "tiny-f32", mtp).has_mtp());
}
