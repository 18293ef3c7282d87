//! States on disk: what comes back is what was saved, and what is not whole is left alone.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::cache::{FromFolder, Mark, Owner, Saved, StateCache, StateFolder};
use engine::speculation::Head;
use engine::{DraftStep, Engine, EngineConfig, Feed, NormExtent, PIECE_TOKENS, Want};
use gguf::Gguf;
use kernels::KvType;
use model::Checkpoint;
use std::path::{Path, PathBuf};

const PLENTY: u64 = 1 << 30;

/// A new, empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn open(path: &Path) -> StateFolder {
    StateFolder::open(path, "a", PLENTY).unwrap()
}

fn drafting_engine() -> Engine<Cpu> {
    let open = |name: &str| Gguf::open(fixture(name)).unwrap();
    let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
    let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
    let config = EngineConfig { deferred: 9, mtp: Some(NormExtent::Whole), ..config(1, 64) };
    Engine::new(cpu(2, Isa::detect()), &checkpoint, config, &mut |_| {}).unwrap()
}

fn plain_engine() -> Engine<Cpu> {
    cpu_engine("quantmix", config(1, 64))
}

/// Feeds `text` as far as the slot does not hold it, and saves it.
fn save(engine: &mut Engine<Cpu>, store: &mut StateFolder, owner: &str, text: &[u32]) -> Saved {
    let held = engine.history(0).unwrap().to_vec();
    if !text.starts_with(&held) {
        engine.reset(0).unwrap();
    }
    let held = engine.history(0).unwrap().len();
    if held < text.len() {
        engine.prefill(0, &text[held..], Want::Nothing).unwrap();
    }
    let next = [text, &[1]].concat();
    engine.save_for(0, (store, Owner::named(owner)), &next, None).unwrap()
}

/// What a fresh slot gets of `text`.
fn recall(engine: &mut Engine<Cpu>, store: &mut StateFolder, text: &[u32]) -> FromFolder {
    engine.reset(0).unwrap();
    let found = engine.recall_saved(0, store, text).unwrap();
    assert_eq!(engine.history(0).unwrap(), &text[..found.tokens]);
    found
}

fn found(tokens: usize) -> FromFolder {
    FromFolder { tokens, ignored: Vec::new() }
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

/// The same of a slot that computed `text` itself.
fn cold(engine: &mut Engine<Cpu>, text: &[u32]) -> (u64, Vec<u32>, Vec<u32>) {
    engine.reset(0).unwrap();
    engine.prefill(0, text, Want::Nothing).unwrap();
    future(engine)
}

fn files(path: &Path, ending: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|p| p.to_str().unwrap().ends_with(ending)).collect();
    paths.sort_unstable();
    paths
}

/// A copy of a folder.
fn copy(from: &Path, name: &str) -> PathBuf {
    let to = folder(name);
    std::fs::create_dir_all(&to).unwrap();
    for file in files(from, "") {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
    to
}

fn total(path: &Path) -> u64 {
    files(path, "").iter().map(|path| path.metadata().unwrap().len()).sum()
}

/// So many tokens that are no text of anybody.
fn tokens(count: usize, salt: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i * 7 + i * 13 + salt * 29) % 250 + 1).collect()
}

#[test]
fn fault_058_fault_059_fault_065_a_state_outlives_the_program() {
    let path = folder("outlives");
    let mut store = open(&path);
    let text = prompt("tiny-f32", "long");
    let makes = [drafting_engine as fn() -> Engine<Cpu>, plain_engine];
    for make in makes {
        // The n-gram features need ids before the slot's last two; sparse layers select far on.
        for len in [2, 70, 150, text.len() - 6] {
            let mut engine = make();
            assert!(matches!(
                save(&mut engine, &mut store, "x", &text[..len]),
                Saved::Written { tokens, .. } if tokens == len
            ));
            let expected = cold(&mut engine, &text[..len]);
            let mut engine = make();
            assert_eq!(recall(&mut engine, &mut open(&path), &text), found(len));
            assert!(future(&mut engine) == expected, "{len}");
        }
    }
    // A shorter text than what was saved finds a shorter state; one that is no longer, too.
    let mut engine = plain_engine();
    assert_eq!(recall(&mut engine, &mut store, &text[..151]), found(150));
    assert_eq!(recall(&mut engine, &mut store, &text[..150]), found(70));
    assert_eq!(recall(&mut engine, &mut store, &text[..2]), found(0));
    // What the slot holds is left alone if it is as long.
    engine.reset(0).unwrap();
    engine.prefill(0, &text[..150], Want::Nothing).unwrap();
    assert_eq!(engine.recall_saved(0, &mut store, &text[..160]).unwrap(), found(0));
    assert_eq!(engine.history(0).unwrap().len(), 150);
}

#[test]
fn fault_061_states_of_other_models_and_settings_are_not_taken() {
    let path = folder("foreign");
    let text = prompt("tiny-f32", "long");
    let mut plain = plain_engine();
    save(&mut plain, &mut open(&path), "x", &text[..70]);
    let state = files(&path, ".state").remove(0);
    let mut other = StateFolder::open(&path, "b", PLENTY).unwrap();
    assert_eq!(recall(&mut plain, &mut other, &text), found(0));
    let mut drafting = drafting_engine();
    assert_eq!(recall(&mut drafting, &mut open(&path), &text), found(0));

    // Under the names that the other model's would have.
    save(&mut drafting, &mut open(&path), "x", &text[..70]);
    let theirs = files(&path, ".state").into_iter().find(|path| *path != state).unwrap();
    std::fs::copy(&state, &theirs).unwrap();
    let result = recall(&mut drafting, &mut open(&path), &text);
    assert_eq!((result.tokens, result.ignored.len()), (0, 1));
    assert!(result.ignored[0].contains("another model"), "{result:?}");
    assert!(result.ignored[0].contains(theirs.to_str().unwrap()), "{result:?}");
    // Another text under this one's name.
    save(&mut plain, &mut open(&path), "x", &tokens(70, 5));
    let others = files(&path, ".state").into_iter().find(|p| *p != state && *p != theirs).unwrap();
    std::fs::copy(&others, &state).unwrap();
    let result = recall(&mut plain, &mut open(&path), &text);
    assert!(result.tokens == 0 && result.ignored[0].contains("another text"), "{result:?}");
}

#[test]
fn fault_061_cut_and_damaged_files_are_ignored_and_replaced() {
    let path = folder("damaged");
    let mut engine = drafting_engine();
    let text = tokens(70, 4);
    save(&mut engine, &mut open(&path), "x", &text);
    let longer = [&text[..], &[7, 8, 9]].concat();
    let expected = cold(&mut engine, &text);
    assert!(files(&path, ".tmp").is_empty(), "nothing unfinished is left");
    let all = [files(&path, ".state"), files(&path, ".piece")].concat();
    assert_eq!(all.len(), 1 + text.len() / PIECE_TOKENS);

    for file in &all[..2] {
        let good = std::fs::read(file).unwrap();
        let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), good[..7].to_vec(), b"GGUF".repeat(9)];
        damaged
            .extend([8, 16, 39, 100, good.len() / 2, good.len() - 1].map(|l| good[..l].to_vec()));
        for at in (0..good.len()).step_by(good.len() / 60) {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            damaged.push(bytes);
        }
        damaged.push([&good[..], &[0; 8]].concat());
        for (i, bytes) in damaged.iter().enumerate() {
            std::fs::write(file, bytes).unwrap();
            let result = recall(&mut engine, &mut open(&path), &longer);
            assert_eq!((result.tokens, result.ignored.len()), (0, 1), "case {i} {file:?}");
            assert_eq!(result.ignored[0].lines().count(), 1);
            let state = all[0].file_name().unwrap().to_str().unwrap();
            assert!(result.ignored[0].contains(state), "{result:?}");
            // A slot that an unusable file was tried for is as good as any other.
            assert!(i % 20 != 0 || cold(&mut engine, &text) == expected);
        }
        // Who found it unusable saves it anew.
        let mut store = open(&path);
        assert_eq!(recall(&mut engine, &mut store, &longer).tokens, 0);
        assert!(matches!(save(&mut engine, &mut store, "x", &text), Saved::Written { .. }));
        assert_eq!(file.metadata().unwrap().len(), good.len() as u64);
        assert_eq!(recall(&mut engine, &mut open(&path), &longer), found(text.len()));
        assert!(future(&mut engine) == expected);
    }
    // A piece that has gone.
    std::fs::remove_file(&all[1]).unwrap();
    let result = recall(&mut engine, &mut open(&path), &longer);
    assert!(result.tokens == 0 && result.ignored[0].contains("not there"), "{result:?}");
    assert!(matches!(save(&mut engine, &mut open(&path), "x", &text), Saved::Written { .. }));
    assert_eq!(recall(&mut engine, &mut open(&path), &longer), found(text.len()));
}

#[test]
fn a_turn_writes_its_new_pieces_and_one_snapshot() {
    let path = folder("turns");
    let mut store = open(&path);
    let mut engine = plain_engine();
    let text = tokens(300, 1);
    let written = |saved| match saved {
        Saved::Written { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    };
    let first = written(save(&mut engine, &mut store, "x", &text[..200]));
    let piece = files(&path, ".piece")[0].metadata().unwrap().len();
    let state = files(&path, ".state")[0].metadata().unwrap().len();
    assert_eq!(first, 3 * piece + state);
    assert_eq!(files(&path, ".piece").len(), 3);
    let second = written(save(&mut engine, &mut store, "x", &text[..260]));
    assert_eq!(files(&path, ".piece").len(), 4);
    assert!(second < 2 * piece + state, "{second}: {piece} {state}");
    // Another text that begins alike, and the same once more.
    let fork = [&text[..192], &tokens(20, 3)].concat();
    assert!(written(save(&mut engine, &mut store, "y", &fork)) < piece + state);
    assert_eq!(files(&path, ".piece").len(), 4);
    let known = save(&mut engine, &mut store, "y", &fork);
    assert_eq!(known, Saved::Known { tokens: fork.len() });
    assert_eq!(store.bytes().unwrap(), total(&path));
}

#[test]
fn a_state_from_the_cache_in_memory_is_saved_where_the_slot_went_astray() {
    let path = folder("memory");
    let text = tokens(200, 1);
    for make in [drafting_engine as fn() -> Engine<Cpu>, plain_engine] {
        let mut engine = make();
        let mut cache = StateCache::for_states(64 << 20);
        engine.prefill(0, &text[..150], Want::Nothing).unwrap();
        engine.remember(0, &mut cache, Mark::Boundary).unwrap();
        engine.prefill(0, &[9, 9, 9], Want::Nothing).unwrap();
        let to = (&mut open(&path), Owner::named("x"));
        let saved = engine.save_for(0, to, &text, Some(&mut cache)).unwrap();
        assert!(matches!(saved, Saved::Written { tokens: 150, .. }), "{saved:?}");
        let expected = cold(&mut engine, &text[..150]);
        let mut engine = make();
        assert_eq!(recall(&mut engine, &mut open(&path), &text), found(150));
        assert!(future(&mut engine) == expected);
        let to = (&mut open(&path), Owner::named("x"));
        assert_eq!(engine.save_for(0, to, &tokens(9, 8), None).unwrap(), Saved::Nothing);
    }
}

#[test]
fn pieces_without_the_drafting_block_s_rows_are_replaced_by_those_with() {
    let path = folder("rows");
    let text = tokens(230, 1);
    let counts = || (files(&path, ".piece").len(), files(&path, ".full.piece").len());
    // Nobody drafts in the middle: behind that, rows follow from more than the tokens.
    let with_gap = |engine: &mut Engine<Cpu>| {
        engine.reset(0).unwrap();
        engine.prefill(0, &text[..100], Want::Nothing).unwrap();
        for token in &text[100..140] {
            engine.forward(&[Feed::new(0, &[*token], Want::Last)]).unwrap();
        }
        engine.prefill(0, &text[140..200], Want::Nothing).unwrap();
    };
    let mut engine = drafting_engine();
    with_gap(&mut engine);
    save(&mut engine, &mut open(&path), "gap", &text[..200]);
    assert_eq!(counts(), (3, 1));
    with_gap(&mut engine);
    let expected = future(&mut engine);
    assert_eq!(recall(&mut engine, &mut open(&path), &text), found(200));
    assert!(future(&mut engine) == expected);

    engine.reset(0).unwrap();
    save(&mut engine, &mut open(&path), "whole", &text[..200]);
    assert_eq!(counts(), (3, 3));
    let whole = cold(&mut engine, &text[..200]);
    // The state with the gap goes on with the better pieces; so does the other.
    for (gone, expected) in [("whole", expected), ("gap", whole)] {
        let path = copy(&path, gone);
        open(&path).forget(Owner::named(gone)).unwrap();
        let mut engine = drafting_engine();
        assert_eq!(recall(&mut engine, &mut open(&path), &text), found(200));
        assert!(future(&mut engine) == expected, "{gone}");
    }
}

#[test]
fn programs_share_a_folder() {
    let path = folder("shared");
    let mut engine = plain_engine();
    save(&mut engine, &mut open(&path), "first", &tokens(140, 9));
    let budget = total(&path) * 5 / 2;
    std::thread::scope(|scope| {
        for salt in 0..3 {
            let path = &path;
            scope.spawn(move || {
                let mut engine = plain_engine();
                let mut store = StateFolder::open(path, "a", budget).unwrap();
                for round in 0..8 {
                    let text = tokens(140, salt * 2 + round % 2);
                    save(&mut engine, &mut store, &salt.to_string(), &text);
                    let longer = [&text[..], &[1]].concat();
                    let found = recall(&mut engine, &mut store, &longer);
                    // Another may have taken its room meanwhile.
                    assert!(found.ignored.is_empty(), "{found:?}");
                }
            });
        }
    });
    assert!(total(&path) <= budget);
}

#[test]
fn keys_and_values_take_the_bytes_of_their_type() {
    let text = prompt("tiny-f32", "long");
    let sizes = [KvType::F32, KvType::F16, KvType::Q8_0].map(|kv| {
        let path = folder(&format!("kv-{kv}"));
        let make = || cpu_engine("quantmix", EngineConfig { kv, ..config(1, 64) });
        let mut engine = make();
        save(&mut engine, &mut open(&path), "x", &text[..150]);
        let expected = cold(&mut engine, &text[..150]);
        let mut engine = make();
        assert_eq!(recall(&mut engine, &mut open(&path), &text), found(150));
        assert!(future(&mut engine) == expected, "{kv}");
        files(&path, ".piece")[0].metadata().unwrap().len()
    });
    assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
}

#[test]
fn the_budget_is_kept_and_the_oldest_goes_first() {
    let path = folder("budget");
    let mut engine = plain_engine();
    let texts: Vec<Vec<u32>> = (0..5).map(|salt| tokens(140, salt)).collect();
    save(&mut engine, &mut open(&path), "0", &texts[0]);
    let one = total(&path);
    // Room for three and a half.
    let budget = one * 7 / 2;
    let mut store = StateFolder::open(&path, "a", budget).unwrap();
    for (text, owner) in texts[1..3].iter().zip(["1", "2"]) {
        save(&mut engine, &mut store, owner, text);
    }
    // The first one is used again, so the second is the oldest.
    let longer: Vec<Vec<u32>> = texts.iter().map(|text| [&text[..], &[1]].concat()).collect();
    assert_eq!(recall(&mut engine, &mut store, &longer[0]), found(140));
    let saved = save(&mut engine, &mut store, "3", &texts[3]);
    assert!(matches!(saved, Saved::Written { total, .. } if total <= budget), "{saved:?}");
    assert!(total(&path) <= budget);
    let there = |engine: &mut Engine<Cpu>, store: &mut StateFolder| {
        let found = longer.iter().map(|text| recall(engine, store, text));
        found.map(|found| (found.tokens > 0, found.ignored.len())).collect::<Vec<_>>()
    };
    let (yes, no) = ((true, 0), (false, 0));
    assert_eq!(there(&mut engine, &mut store), [yes, no, yes, yes, no]);
    assert_eq!(files(&path, ".piece").len(), 3 * 2, "no pieces without a state");
    // What can never fit takes nothing away.
    let mut small = StateFolder::open(&path, "a", one / 2).unwrap();
    assert_eq!(save(&mut engine, &mut small, "4", &texts[4]), Saved::NoRoom);
    assert_eq!(files(&path, ".state").len(), 3);
    // A deleted conversation leaves nothing, others stay.
    store.forget(Owner::named("2")).unwrap();
    assert_eq!(there(&mut engine, &mut store), [yes, no, no, yes, no]);
    assert_eq!(files(&path, ".piece").len(), 2 * 2);
    // Files of others do not count and do not go.
    std::fs::write(path.join("notes.txt"), vec![0; 3 * usize::try_from(one).unwrap()]).unwrap();
    save(&mut engine, &mut store, "1", &texts[1]);
    assert_eq!(there(&mut engine, &mut store), [yes, yes, no, yes, no]);
    assert!(path.join("notes.txt").exists());
}

#[test]
fn fault_070_shorter_states_of_the_same_text_go_before_those_of_others() {
    let path = folder("nested");
    let mut engine = plain_engine();
    let (mine, other) = (tokens(330, 1), tokens(140, 2));
    let mut store = open(&path);
    save(&mut engine, &mut store, "other", &other);
    for len in [70, 150, 200, 270] {
        save(&mut engine, &mut store, "mine", &mine[..len]);
    }
    let budget = total(&path);
    let mut store = StateFolder::open(&path, "a", budget).unwrap();
    save(&mut engine, &mut store, "mine", &mine[..329]);
    assert!(total(&path) <= budget);
    assert_eq!(recall(&mut engine, &mut store, &mine), found(329));
    assert_eq!(recall(&mut engine, &mut store, &[&other[..], &[1]].concat()), found(140));
    let states = files(&path, ".state").len();
    assert!((3..=5).contains(&states), "{states}");
    assert_eq!(recall(&mut engine, &mut store, &mine[..100]), found(0), "the shortest went");
}

#[test]
fn a_clock_that_goes_back_and_a_budget_of_a_byte_cost_states_and_nothing_else() {
    let path = folder("clock");
    let mut engine = plain_engine();
    let texts: Vec<Vec<u32>> = (0..3).map(|salt| tokens(70, salt)).collect();
    save(&mut engine, &mut open(&path), "0", &texts[0]);
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 30);
    for file in files(&path, ".state") {
        std::fs::File::options().write(true).open(file).unwrap().set_modified(ahead).unwrap();
    }
    let budget = total(&path) * 5 / 2;
    let mut store = StateFolder::open(&path, "a", budget).unwrap();
    for (text, owner) in texts[1..].iter().zip(["1", "2"]) {
        let saved = save(&mut engine, &mut store, owner, text);
        assert!(matches!(saved, Saved::Written { total, .. } if total <= budget), "{saved:?}");
        let longer = [&text[..], &[1]].concat();
        assert_eq!(recall(&mut engine, &mut store, &longer), found(70));
    }
    let mut tiny = StateFolder::open(&path, "a", 1).unwrap();
    assert_eq!(save(&mut engine, &mut tiny, "3", &tokens(70, 9)), Saved::NoRoom);
    assert_eq!(files(&path, ".state").len(), 2);
}

#[test]
fn a_file_of_other_settings_under_a_name_of_these_is_not_used() {
    let path = folder("settings");
    let mut engine = plain_engine();
    let text = tokens(70, 1);
    let longer = [&text[..], &[1]].concat();
    save(&mut engine, &mut open(&path), "x", &text);
    let [state, piece] = [".state", ".piece"].map(|ending| files(&path, ending).remove(0));
    let mut other = StateFolder::open(&path, "b", PLENTY).unwrap();
    save(&mut engine, &mut other, "x", &text);
    for own in [state, piece] {
        let ending = format!(".{}", own.extension().unwrap().to_str().unwrap());
        let theirs = files(&path, &ending).into_iter().find(|path| *path != own).unwrap();
        let good = std::fs::read(&own).unwrap();
        std::fs::copy(theirs, &own).unwrap();
        let result = recall(&mut engine, &mut open(&path), &longer);
        assert!(result.tokens == 0 && result.ignored[0].contains("other settings"), "{result:?}");
        std::fs::write(&own, good).unwrap();
        assert_eq!(recall(&mut engine, &mut open(&path), &longer), found(70));
    }
}

#[test]
fn another_conversation_s_longer_text_does_not_make_a_state_go_early() {
    let path = folder("branches");
    let mut engine = plain_engine();
    let (text, old) = (tokens(140, 1), tokens(70, 2));
    save(&mut engine, &mut open(&path), "old", &old);
    save(&mut engine, &mut open(&path), "short", &text[..70]);
    save(&mut engine, &mut open(&path), "long", &text[..139]);
    let mut store = StateFolder::open(&path, "a", total(&path)).unwrap();
    save(&mut engine, &mut store, "new", &tokens(70, 3));
    let found = [&old[..], &text[..70]].map(|text| {
        let longer = [text, &[1]].concat();
        recall(&mut engine, &mut store, &longer).tokens
    });
    assert_eq!(found, [0, 70]);
}

#[test]
fn what_a_slot_holds_counts_as_far_as_it_is_of_use() {
    let path = folder("counts");
    let text = tokens(200, 1);
    let mut engine = plain_engine();
    let mut cache = StateCache::for_states(64 << 20);
    engine.prefill(0, &text[..70], Want::Nothing).unwrap();
    engine.remember(0, &mut cache, Mark::Boundary).unwrap();
    save(&mut engine, &mut open(&path), "x", &text[..70]);
    engine.prefill(0, &text[70..150], Want::Nothing).unwrap();
    // All of the prompt is too much: its last token has to be computed.
    assert_eq!(engine.recall_saved(0, &mut open(&path), &text[..150]).unwrap(), found(70));
    assert_eq!(engine.history(0).unwrap(), &text[..70]);
    // What the cache has is not taken where the slot has more.
    engine.prefill(0, &text[70..150], Want::Nothing).unwrap();
    let to = (&mut open(&path), Owner::named("x"));
    let saved = engine.save_for(0, to, &text, Some(&mut cache)).unwrap();
    assert!(matches!(saved, Saved::Written { tokens: 150, .. }), "{saved:?}");
}

#[test]
fn what_is_saved_once_more_counts_as_used() {
    let path = folder("again");
    let mut engine = plain_engine();
    let texts: Vec<Vec<u32>> = (0..3).map(|salt| tokens(70, salt)).collect();
    save(&mut engine, &mut open(&path), "0", &texts[0]);
    let budget = total(&path) * 5 / 2;
    let mut store = StateFolder::open(&path, "a", budget).unwrap();
    save(&mut engine, &mut store, "1", &texts[1]);
    assert_eq!(save(&mut engine, &mut store, "0", &texts[0]), Saved::Known { tokens: 70 });
    save(&mut engine, &mut store, "2", &texts[2]);
    let there = texts.iter().map(|text| {
        let longer = [&text[..], &[1]].concat();
        recall(&mut engine, &mut store, &longer).tokens > 0
    });
    assert_eq!(there.collect::<Vec<_>>(), [true, false, true]);
}

#[cfg(unix)]
#[test]
fn a_folder_may_be_a_link_and_files_that_are_links_are_not_used() {
    let (path, link) = (folder("linked"), folder("link"));
    let _ = std::fs::remove_file(&link);
    std::fs::create_dir_all(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut engine = plain_engine();
    let text = tokens(70, 1);
    save(&mut engine, &mut open(&link), "x", &text);
    let longer = [&text[..], &[1]].concat();
    assert_eq!(recall(&mut engine, &mut open(&link), &longer), found(70));
    // A state elsewhere, behind a link of its name: it is none of this folder's.
    let (state, other) = (files(&path, ".state").remove(0), folder("elsewhere"));
    std::fs::create_dir_all(&other).unwrap();
    let other = other.join("state");
    std::fs::rename(&state, &other).unwrap();
    std::os::unix::fs::symlink(&other, &state).unwrap();
    let before = std::fs::read(&other).unwrap();
    assert_eq!(recall(&mut engine, &mut open(&link), &longer), found(0));
    assert!(matches!(save(&mut engine, &mut open(&link), "x", &text), Saved::Written { .. }));
    assert_eq!(recall(&mut engine, &mut open(&link), &longer), found(70));
    assert!(!state.is_symlink() && std::fs::read(&other).unwrap() == before);
}

#[test]
fn what_a_stopped_program_left_is_removed() {
    let path = folder("left");
    let mut engine = plain_engine();
    save(&mut engine, &mut open(&path), "x", &tokens(70, 1));
    let state = files(&path, ".state").remove(0);
    let unfinished = format!("{}.tmp", state.to_str().unwrap());
    std::fs::write(&unfinished, b"half").unwrap();
    std::fs::write(path.join("mine.tmp"), b"of somebody else").unwrap();
    save(&mut engine, &mut open(&path), "x", &tokens(70, 2));
    assert_eq!(files(&path, ".tmp"), [path.join("mine.tmp")]);
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_and_no_more() {
    let path = folder("file");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, b"").unwrap();
    let error = StateFolder::open(&path, "", PLENTY).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    // It goes away while it is in use.
    std::fs::remove_file(&path).unwrap();
    let mut store = open(&path);
    let mut engine = plain_engine();
    let text = tokens(70, 1);
    let expected = cold(&mut engine, &text);
    engine.reset(0).unwrap();
    engine.prefill(0, &text, Want::Nothing).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let next = tokens(71, 1);
    let to = (&mut store, Owner::named("x"));
    assert!(engine.save_for(0, to, &next, None).is_err());
    assert!(engine.recall_saved(0, &mut store, &next).is_err());
    assert!(future(&mut engine) == expected);
}
