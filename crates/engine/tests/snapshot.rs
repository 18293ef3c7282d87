//! A restored slot is to the bit the slot that computed the tokens itself.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::speculation::Head;
use engine::{
    DraftStep, Engine, EngineConfig, Error, Feed, NormExtent, PIECE_TOKENS, Piece, Snapshot, Want,
};
use gguf::Gguf;
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;

/// A fixture or the sample model; two of them have a drafting block.
fn load(name: &str) -> Checkpoint {
    match name {
        "tiny-f32" => {
            let open = |name: &str| Gguf::open(fixture(name)).unwrap();
            Checkpoint::load_with_mtp(&open("tiny-f32.gguf"), &open("tiny-f32-mtp.gguf")).unwrap()
        }
        "sample" => {
            let file = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
            Checkpoint::load(&file).unwrap()
        }
        _ => checkpoint(name),
    }
}

const ALL: [&str; 4] = ["tiny-f32", "tiny-16bit", "quantmix", "sample"];

fn sizes(mtp: bool) -> EngineConfig {
    let mtp = mtp.then_some(NormExtent::Whole);
    EngineConfig { deferred: 9, mtp, ..config(3, 64) }
}

fn engine(model: &str, mtp: bool) -> Engine<Cpu> {
    let cpu = cpu(2, Isa::detect());
    Engine::new(cpu, &load(model), sizes(mtp), &mut |_| {}).unwrap()
}

/// So many tokens that are no text of anybody.
fn tokens(count: usize, salt: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i * 7 + i * 13 + salt * 29) % 250 + 1).collect()
}

fn save<B: Backend>(engine: &mut Engine<B>, slot: usize) -> (Vec<Piece>, Snapshot) {
    let snapshot = engine.snapshot(slot).unwrap();
    let pieces = (0..snapshot.pieces()).map(|i| engine.piece(slot, i).unwrap()).collect();
    (pieces, snapshot)
}

/// What a slot is, and what comes of it: hash, draft logits, logits of `rest`, drafts again, hash.
fn future<B: Backend>(engine: &mut Engine<B>, slot: usize, rest: &[u32]) -> Vec<u64> {
    let mut all = vec![engine.state_hash(slot).unwrap()];
    let mut note = |values: &[f32]| all.extend(bits(values).into_iter().map(u64::from));
    let drafts = |engine: &mut Engine<B>, token: u32| {
        let (mut all, mut logits) = (Vec::new(), Vec::new());
        for token in [token, 9, 4].into_iter().take(if engine.has_mtp() { 3 } else { 0 }) {
            engine.draft(&[DraftStep { slot, token }], Head::Full, &mut logits).unwrap();
            all.append(&mut logits);
        }
        all
    };
    note(&drafts(engine, rest[0]));
    for (i, chunk) in rest.chunks(11).enumerate() {
        if i % 2 == 1 {
            note(&engine.forward(&[Feed::deferred(slot, &chunk[..chunk.len().min(5)])]).unwrap());
            engine.decide(slot, 0).unwrap();
        }
        note(&engine.forward(&[Feed::new(slot, chunk, Want::All)]).unwrap());
    }
    note(&drafts(engine, 5));
    all.push(engine.state_hash(slot).unwrap());
    all
}

#[test]
fn fault_058_fault_059_fault_068_a_restored_slot_is_the_slot_that_computed_it() {
    for model in ALL {
        for mtp in [false, true] {
            let (mut from, mut to) = (engine(model, mtp), engine(model, mtp));
            // Longer than the indexer's budget; around the ends of pieces and of sparse blocks.
            let text = tokens(200, 3);
            for at in [1, 2, 5, 63, 64, 65, 127, 128, 130, 150] {
                from.reset(0).unwrap();
                from.prefill(0, &text[..at], Want::Nothing).unwrap();
                let (pieces, snapshot) = save(&mut from, 0);
                assert_eq!((snapshot.len(), pieces.len()), (at, at / PIECE_TOKENS));
                let plain = future(&mut from, 0, &text[at..]);

                // A slot of another engine that was used before.
                to.prefill(1, &tokens(17, 5), Want::Nothing).unwrap();
                to.restore(1, &pieces, &snapshot).unwrap();
                assert_eq!(to.history(1).unwrap(), &text[..at]);
                assert!(future(&mut to, 1, &text[at..]) == plain, "{model}, {mtp}, {at}");
                assert_eq!(to.history(0).unwrap().len(), 0);
                to.reset(1).unwrap();
            }
        }
    }
}

#[test]
fn restored_on_the_reference() {
    let make = || Engine::new(Reference, &load("tiny-f32"), sizes(true), &mut |_| {}).unwrap();
    let (mut from, mut to, text) = (make(), make(), tokens(90, 1));
    from.prefill(0, &text[..70], Want::Nothing).unwrap();
    let (pieces, snapshot) = save(&mut from, 0);
    to.restore(2, &pieces, &snapshot).unwrap();
    assert!(future(&mut to, 2, &text[70..]) == future(&mut from, 0, &text[70..]));
}

/// Feeds `text` in rounds that draft and accept some.
fn in_rounds(engine: &mut Engine<Cpu>, slot: usize, text: &[u32]) {
    let (mut done, mut logits) = (0, Vec::new());
    for accepted in [1, 3, 2, 5, 1, 1, 4].into_iter().cycle() {
        let count = usize::min(accepted, text.len() - done);
        if count == 0 {
            return;
        }
        let mut tried = text[done..done + count].to_vec();
        if engine.has_mtp() && done > 0 {
            let step = DraftStep { slot, token: tried[0] };
            engine.draft(&[step], Head::Full, &mut logits).unwrap();
        }
        tried.extend([1, 2, 3]);
        engine.forward(&[Feed::deferred(slot, &tried)]).unwrap();
        engine.decide(slot, count).unwrap();
        done += count;
    }
}

#[test]
fn fault_067_saved_amid_rounds_of_drafts_and_restored_as_if_prefilled() {
    for model in ["tiny-f32", "sample"] {
        let (mut from, mut to, text) = (engine(model, true), engine(model, true), tokens(180, 2));
        for at in [64, 66, 128, 141] {
            from.reset(0).unwrap();
            in_rounds(&mut from, 0, &text[..at]);
            let (pieces, snapshot) = save(&mut from, 0);
            to.reset(0).unwrap();
            to.prefill(0, &text[..at], Want::Nothing).unwrap();
            let plain = future(&mut to, 0, &text[at..]);
            to.restore(0, &pieces, &snapshot).unwrap();
            assert!(future(&mut to, 0, &text[at..]) == plain, "{model}, {at}");
            assert!(future(&mut from, 0, &text[at..]) == plain, "{model}, {at}");
        }
    }
}

#[test]
fn what_the_slot_still_holds_is_used_where_it_is_the_same() {
    for model in ["tiny-f32", "quantmix", "sample"] {
        let mut engine = engine(model, model != "quantmix");
        let text = tokens(200, 3);
        engine.prefill(0, &text[..140], Want::Nothing).unwrap();
        let (pieces, snapshot) = save(&mut engine, 0);
        engine.prefill(1, &text[..140], Want::Nothing).unwrap();
        let plain = future(&mut engine, 1, &text[140..]);
        // The same, then something else; something else after one piece; on trial; decided; nothing.
        for case in 0..5 {
            engine.reset(0).unwrap();
            match case {
                0 => drop(engine.prefill(0, &text[..140], Want::Nothing).unwrap()),
                1 => drop(engine.prefill(0, &text[..70], Want::Nothing).unwrap()),
                2 | 3 => in_rounds(&mut engine, 0, &text[..131]),
                _ => {}
            }
            match case {
                0 | 1 => drop(engine.prefill(0, &tokens(90, 8), Want::Nothing).unwrap()),
                2 => drop(engine.forward(&[Feed::deferred(0, &text[131..135])]).unwrap()),
                _ => {}
            }
            engine.restore(0, &pieces, &snapshot).unwrap();
            assert_eq!(engine.history(0).unwrap(), &text[..140]);
            assert!(future(&mut engine, 0, &text[140..]) == plain, "{model}, case {case}");
        }
    }
}

#[test]
fn a_block_that_missed_a_part_comes_back_as_it_was() {
    let (mut from, mut to, text) =
        (engine("tiny-f32", true), engine("tiny-f32", true), tokens(230, 2));
    from.prefill(0, &text[..100], Want::Nothing).unwrap();
    // Nobody drafts: of these the block keeps the last rows only.
    for token in &text[100..140] {
        from.forward(&[Feed::new(0, &[*token], Want::Last)]).unwrap();
    }
    from.prefill(0, &text[140..200], Want::Nothing).unwrap();
    let (pieces, snapshot) = save(&mut from, 0);
    let with_mtp: Vec<bool> = pieces.iter().map(Piece::has_mtp).collect();
    assert_eq!(with_mtp, [true, false, false], "rows behind the gap are nobody else's");
    to.restore(0, &pieces, &snapshot).unwrap();
    assert!(future(&mut to, 0, &text[200..]) == future(&mut from, 0, &text[200..]));
}

#[test]
fn a_row_made_with_a_token_that_did_not_come_goes_into_no_piece() {
    let mut engine = engine("tiny-f32", true);
    let text = tokens(130, 2);
    let mut logits = Vec::new();
    engine.prefill(0, &text[..40], Want::Nothing).unwrap();
    engine.draft(&[DraftStep { slot: 0, token: text[40] + 1 }], Head::Full, &mut logits).unwrap();
    engine.prefill(0, &text[40..], Want::Nothing).unwrap();
    assert!(!engine.piece(0, 0).unwrap().has_mtp());
    engine.reset(0).unwrap();
    engine.prefill(0, &text[..40], Want::Nothing).unwrap();
    engine.draft(&[DraftStep { slot: 0, token: text[40] }], Head::Full, &mut logits).unwrap();
    engine.prefill(0, &text[40..], Want::Nothing).unwrap();
    assert!(engine.piece(0, 0).unwrap().has_mtp());
}

#[test]
fn fault_061_what_does_not_belong_is_refused_and_the_slot_is_fresh() {
    let text = tokens(150, 4);
    let (mut from, mut other) = (engine("tiny-f32", true), engine("quantmix", false));
    from.prefill(0, &text, Want::Nothing).unwrap();
    let (pieces, snapshot) = save(&mut from, 0);
    // The same tokens behind other ones.
    from.prefill(1, &[&tokens(64, 7)[..], &text[64..]].concat(), Want::Nothing).unwrap();
    let (mixed, _) = save(&mut from, 1);
    assert_eq!(mixed[1].tokens(), pieces[1].tokens());

    let expected = {
        let mut fresh = engine("tiny-f32", true);
        fresh.prefill(0, &text[..9], Want::Nothing).unwrap();
        fresh.state_hash(0).unwrap()
    };
    let swapped = [&pieces[1], &pieces[0]];
    let wrong: [&[&Piece]; 5] = [
        &[],
        &[&pieces[0]],
        &[&pieces[0], &pieces[1], &pieces[1]],
        &swapped,
        &[&pieces[0], &mixed[1]],
    ];
    for (i, wrong) in wrong.into_iter().enumerate() {
        from.prefill(2, &text[..3], Want::Nothing).unwrap();
        let result = from.restore(2, wrong, &snapshot);
        assert!(matches!(result, Err(Error::WrongPieces { .. })), "case {i}: {result:?}");
        assert!(from.history(2).unwrap().is_empty() && !from.is_broken(2).unwrap());
        from.prefill(2, &text[..9], Want::Nothing).unwrap();
        assert_eq!(from.state_hash(2).unwrap(), expected);
        from.reset(2).unwrap();
    }
    assert!(matches!(other.restore(0, &pieces, &snapshot), Err(Error::ForeignState)));
    let mut without = engine("tiny-f32", false);
    assert!(matches!(without.restore(0, &pieces, &snapshot), Err(Error::ForeignState)));
    assert!(matches!(from.restore(9, &pieces, &snapshot), Err(Error::NoSlot { .. })));
    let small = EngineConfig { context: 100, ..sizes(true) };
    let cpu = cpu(2, Isa::detect());
    let mut small = Engine::new(cpu, &load("tiny-f32"), small, &mut |_| {}).unwrap();
    assert!(matches!(small.restore(0, &pieces, &snapshot), Err(Error::ContextFull { .. })));
}

#[test]
fn what_cannot_be_saved_is_refused() {
    let mut engine = engine("tiny-f32", true);
    engine.prefill(0, &tokens(70, 1), Want::Nothing).unwrap();
    assert!(matches!(engine.piece(0, 1), Err(Error::NoSuchPiece { index: 1, pieces: 1 })));
    assert!(matches!(engine.snapshot(5), Err(Error::NoSlot { .. })));
    engine.forward(&[Feed::deferred(0, &[1, 2])]).unwrap();
    assert!(matches!(engine.snapshot(0), Err(Error::Undecided { .. })));
    assert!(matches!(engine.piece(0, 0), Err(Error::Undecided { .. })));
    engine.decide(0, 1).unwrap();
    assert_eq!(engine.snapshot(0).unwrap().len(), 71);
    let (fresh, mut other) = (engine.snapshot(1).unwrap(), tokens(9, 1));
    assert!(fresh.is_empty());
    engine.restore::<Piece>(0, &[], &fresh).unwrap();
    other.truncate(4);
    engine.prefill(0, &other, Want::Nothing).unwrap();
}
