//! The timed backend computes the same bits and counts the bytes that the checkpoint says.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::Isa;
use engine::speculation::Head;
use engine::timed::{Cost, Group, Profile, Timed};
use engine::{DraftStep, Engine, EngineConfig, Feed, NormExtent, Want};
use gguf::Gguf;
use kernels::reference::Reference;
use model::{Checkpoint, DraftVocab, Role};
use std::time::Instant;

fn timed_engine(model: &str) -> Engine<Timed<cpu::Cpu>> {
    engine_on(Timed::new(cpu(2, Isa::detect())), model, config(1, 64))
}

/// The profile of a window of these tokens on a fresh slot.
fn profile_of(engine: &mut Engine<Timed<cpu::Cpu>>, tokens: &[u32], want: Want) -> Profile {
    engine.reset(0).unwrap();
    engine.backend_mut().take_profile();
    engine.forward(&[Feed::new(0, tokens, want)]).unwrap();
    engine.backend_mut().take_profile()
}

fn cost(profile: &Profile, group: Group, name: &str) -> Cost {
    let is = |part: &engine::timed::Part| part.group == group && part.name == name;
    profile.parts().iter().find(|(part, _)| is(part)).unwrap().1
}

/// Bytes of all tensors of a role, and their number.
fn of_role(checkpoint: &Checkpoint, role: Role) -> (u64, u64) {
    let tensors = checkpoint.trunk_tensors();
    let tensors = tensors.iter().filter(|tensor| tensor.role == role);
    tensors.fold((0, 0), |(bytes, count), t| (bytes + t.bytes.len() as u64, count + 1))
}

#[test]
fn timing_changes_no_bit() {
    for model in MODELS {
        let tokens = prompt(model, "eos");
        let plain = logits_in_chunks(&mut cpu_engine(model, config(1, 64)), &tokens, &[7]);
        let timed = logits_in_chunks(&mut timed_engine(model), &tokens, &[7]);
        assert!(bits(&plain) == bits(&timed), "{model}");
    }
    let mut timed = engine_on(Timed::new(Reference), "quantmix", config(1, 64));
    let mut plain = engine_on(Reference, "quantmix", config(1, 64));
    let tokens = prompt("quantmix", "eos");
    let timed = logits_in_chunks(&mut timed, &tokens, &[7]);
    assert!(bits(&logits_in_chunks(&mut plain, &tokens, &[7])) == bits(&timed));
}

#[test]
fn every_matrix_is_counted_with_its_bytes() {
    for model in MODELS {
        let checkpoint = checkpoint(model);
        let profile = profile_of(&mut timed_engine(model), &[5], Want::Last);
        for (role, group) in [
            (Role::GdnQkv, Group::Dense),
            (Role::GdnOut, Group::Dense),
            (Role::AttnQ, Group::Dense),
            (Role::IndexK, Group::Dense),
            (Role::Output, Group::Dense),
            (Role::Router, Group::Router),
            (Role::SharedDown, Group::Shared),
            (Role::PleKey, Group::Ple),
        ] {
            let found = cost(&profile, group, role.short_name());
            let expected = of_role(&checkpoint, role);
            assert_eq!((found.weight_bytes, found.calls), expected, "{model} {role}");
            assert_eq!(found.state_bytes, 0);
        }
    }
}

#[test]
fn only_experts_in_use_count_and_each_once() {
    for model in MODELS {
        let checkpoint = checkpoint(model);
        let moe = &checkpoint.hp.moe;
        let (down, layers) = of_role(&checkpoint, Role::DownExps);
        let one = down / layers / moe.experts as u64;
        let mut engine = timed_engine(model);
        let down_bytes = |engine: &mut _, tokens: &[u32]| {
            cost(&profile_of(engine, tokens, Want::Nothing), Group::Experts, "down").weight_bytes
        };
        let single = down_bytes(&mut engine, &[5]);
        assert_eq!(single, one * layers * moe.used as u64, "{model}");
        let many = down_bytes(&mut engine, &prompt(model, "chunk")[..64]);
        assert!(single <= many && many <= down, "{model}: {single} {many} {down}");
    }
}

#[test]
fn states_count_once_per_window() {
    let hp = checkpoint("quantmix").hp;
    let mut engine = timed_engine("quantmix");
    let tokens = &prompt("quantmix", "chunk")[..5];
    let profile = profile_of(&mut engine, tokens, Want::All);
    let bytes = |group, name| cost(&profile, group, name).state_bytes;
    assert_eq!(bytes(Group::Gdn, "scan"), 2 * hp.gdn_state_bytes());
    assert_eq!(bytes(Group::Gdn, "conv"), 2 * hp.gdn_conv_bytes());
    let kv = 5 * hp.kv_bytes_per_token(4);
    assert_eq!(bytes(Group::Qsa, "append"), kv + 5 * hp.index_key_bytes_per_token(4));
    assert_eq!(bytes(Group::Qsa, "attend"), kv, "so few tokens are all within the budget");
    assert_eq!(bytes(Group::Qsa, "select"), 0);
}

#[test]
fn the_parts_are_within_the_window_and_the_record_starts_anew() {
    let mut engine = timed_engine("quantmix");
    engine.backend_mut().take_profile();
    let tokens = prompt("quantmix", "chunk");
    let started = Instant::now();
    engine.forward(&[Feed::new(0, &tokens[..32], Want::All)]).unwrap();
    let elapsed = started.elapsed();
    let profile = engine.backend_mut().take_profile();
    assert!(profile.total().time <= elapsed);
    let mut parts: Vec<_> = profile.parts().iter().map(|(part, _)| *part).collect();
    parts.sort_by_key(|part| (part.group.name(), part.name));
    let count = parts.len();
    parts.dedup();
    assert_eq!(parts.len(), count);
    assert!(engine.backend_mut().take_profile().parts().is_empty());
}

#[test]
fn fault_145_which_slots_are_busy_moves_no_byte() {
    for model in MODELS {
        let mut engine = engine_on(Timed::new(cpu(2, Isa::detect())), model, config(3, 64));
        let tokens = prompt(model, "eos");
        let (before, next) = tokens.split_at(tokens.len() - 1);
        let counts = [[0, 1], [0, 2], [2, 0]].map(|busy| {
            for slot in 0..3 {
                engine.reset(slot).unwrap();
                engine.prefill(slot, before, Want::Nothing).unwrap();
            }
            engine.backend_mut().take_profile();
            engine.forward(&busy.map(|slot| Feed::new(slot, next, Want::Last))).unwrap();
            let total = engine.backend_mut().take_profile().total();
            (total.weight_bytes, total.state_bytes, total.calls)
        });
        assert!(counts[0].1 > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }
}

/// The bytes that the engine and the timed backend counted since the last call.
fn counted(engine: &mut Engine<Timed<cpu::Cpu>>, before: &mut u64) -> (u64, u64) {
    let reads = engine.weight_reads();
    assert_eq!(reads.assumed, 0, "the CPU tells which experts are in use");
    let bytes = reads.bytes - std::mem::replace(before, reads.bytes);
    (bytes, engine.backend_mut().take_profile().total().weight_bytes)
}

#[test]
fn the_engine_counts_what_its_operations_count() {
    for model in MODELS {
        let mut engine = engine_on(Timed::new(cpu(2, Isa::detect())), model, config(2, 64));
        let (tokens, mut before) = (prompt(model, "chunk"), 0);
        let two = |engine: &mut Engine<_>, first: Want, second: Want| {
            let feeds = [Feed::new(0, &tokens[..40], first), Feed::new(1, &tokens[7..20], second)];
            engine.forward(&feeds).unwrap();
        };
        for (first, second) in
            [(Want::Nothing, Want::Nothing), (Want::Last, Want::Nothing), (Want::All, Want::All)]
        {
            two(&mut engine, first, second);
            let (own, timed) = counted(&mut engine, &mut before);
            assert!(own > 0 && own == timed, "{model} {first:?} {second:?}: {own} {timed}");
        }
        let time = engine.weight_reads().time;
        engine.forward(&[Feed::new(1, &tokens[..1], Want::Last)]).unwrap();
        assert!(engine.weight_reads().time > time);
    }
}

#[test]
fn drafts_count_too() {
    let open = |name: &str| Gguf::open(fixture(name)).unwrap();
    let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
    let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
    let config = EngineConfig { deferred: 9, mtp: Some(NormExtent::Whole), ..config(2, 64) };
    let backend = Timed::new(cpu(2, Isa::detect()));
    let mut engine = Engine::new(backend, &checkpoint, config, &mut |_| {}).unwrap();
    let (tokens, mut before, mut logits) = (prompt("tiny-f32", "chunk"), 0, Vec::new());
    // The block follows a prompt, ...
    engine.forward(&[Feed::new(0, &tokens[..40], Want::Last)]).unwrap();
    engine.forward(&[Feed::new(1, &tokens[..9], Want::Last)]).unwrap();
    let (own, timed) = counted(&mut engine, &mut before);
    assert!(own > 0 && own == timed, "{own} {timed}");
    // ... and makes drafts: from what it has kept, then from its own.
    for token in [3, 4] {
        let steps = [0, 1].map(|slot| DraftStep { slot, token });
        engine.draft(&steps, Head::Full, &mut logits).unwrap();
        let (own, timed) = counted(&mut engine, &mut before);
        assert!(own > 0 && own == timed, "{own} {timed}");
    }
    let few = DraftVocab::new(vec![1, 5, 9, 30], checkpoint.hp.vocab).unwrap();
    engine.load_draft_vocab(&checkpoint, few).unwrap();
    engine.draft(&[DraftStep { slot: 0, token: 5 }], Head::Subset, &mut logits).unwrap();
    let (own, timed) = counted(&mut engine, &mut before);
    assert!(own > 0 && own == timed, "{own} {timed}");
}
