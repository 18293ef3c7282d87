//! Whole models on the GPU: a token's logits are the same bits however it is computed. Alone, in
//! windows of any size, beside other slots, after trials, in a slot that was restored.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::bits;
use common::models::*;
use cpu::{Cpu, CpuOptions};
use engine::speculation::Head;
use engine::{DraftStep, Engine, EngineConfig, Error, Feed, Piece, Snapshot, Want};
use gpu::Gpu;
use kernels::{Activations, Backend, KvType};

/// Weights of f32, with a drafting block.
const PLAIN: &str = "tiny-f32";
/// All kinds of blocks, with activations of 8 bits.
const MIXED: &str = "quantmix";

/// The model that shows most, or both where all is wanted.
fn models(one: &'static str) -> Vec<&'static str> {
    if full() { vec![PLAIN, MIXED] } else { vec![one] }
}

fn on_gpu(model: &str, config: EngineConfig, test: impl FnOnce(&mut Engine<Gpu>)) {
    with_engine(Activations::Int8, &checkpoint(model), config, test);
}

/// A text past the indexer's budget.
fn text(model: &str) -> Vec<u32> {
    prompt(model, if full() { "chunk" } else { "budget_edge" })
}

#[test]
fn any_chunks_give_the_same_bits() {
    // One by one, every number of rows up to 8, and one above a limit of 32.
    let few: [&[usize]; 3] = [&[1], &[5, 6, 7, 8, 2, 3, 4], &[33, 1]];
    let more: [&[usize]; 7] = [&[2], &[3], &[4], &[8], &[7], &[64], &[100, 1]];
    let chunkings = few.into_iter().chain(more.into_iter().filter(|_| full()));
    for model in models(MIXED) {
        on_gpu(model, sizes(), |engine| {
            let tokens = text(model);
            let whole = bits(&logits_in_chunks(engine, &tokens, &[256]));
            let hash = engine.state_hash(0).unwrap();
            for chunks in chunkings.clone() {
                let parts = bits(&logits_in_chunks(engine, &tokens, chunks));
                assert!(parts == whole, "{model} in chunks of {chunks:?}");
                assert_eq!(engine.state_hash(0).unwrap(), hash, "{model}, {chunks:?}: states");
            }
        });
    }
}

#[test]
fn rounded_keys_and_values_give_the_same_bits_in_any_chunks() {
    for kv in [KvType::F16, KvType::Q8_0] {
        on_gpu("tiny-f32", EngineConfig { kv, mtp: None, ..sizes() }, |engine| {
            let tokens = text("tiny-f32");
            let whole = bits(&logits_in_chunks(engine, &tokens, &[256]));
            let parts = bits(&logits_in_chunks(engine, &tokens, &[5, 1, 8, 2]));
            assert!(parts == whole, "{kv}");
        });
    }
}

#[test]
fn fault_017_fault_019_slots_beside_each_other_keep_their_own_bits() {
    for model in models(PLAIN) {
        on_gpu(model, sizes(), |engine| {
            let prompts = [text(model), prompt(model, "short"), prompt(model, "eos_first")];
            let solo = prompts.clone().map(|p| bits(&logits_in_chunks(engine, &p, &[256])));
            for sizes in [&[9, 1, 2, 8, 3][..], &[20, 30]] {
                let beside = interleaved(engine, &prompts, sizes);
                for (slot, (beside, solo)) in beside.iter().zip(&solo).enumerate() {
                    assert!(bits(beside) == *solo, "{model}, slot {slot}, pieces of {sizes:?}");
                }
            }
        });
    }
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
fn through_trials(engine: &mut Engine<Gpu>, tokens: &[u32], dice: &mut Dice) -> (Vec<u32>, u64) {
    let vocab = engine.hyper_params().vocab;
    engine.reset(0).unwrap();
    let mut all = Vec::new();
    let mut done = 0;
    while done < tokens.len() {
        let right = (1 + dice.roll(5)).min(tokens.len() - done);
        if dice.roll(4) == 0 {
            let feed = Feed::new(0, &tokens[done..done + right], Want::All);
            all.extend(engine.forward(&[feed]).unwrap());
            done += right;
            continue;
        }
        let mut tried = tokens[done..done + right].to_vec();
        for _ in 0..dice.roll(sizes().deferred - right + 1) {
            tried.push(dice.roll(vocab) as u32);
        }
        let logits = engine.forward(&[Feed::deferred(0, &tried)]).unwrap();
        // Nothing is lost when everything is taken back, and it may be tried once more.
        let accepted = if dice.roll(6) == 0 { 0 } else { right };
        engine.decide(0, accepted).unwrap();
        all.extend(&logits[..accepted * vocab]);
        done += accepted;
        assert_eq!(engine.history(0).unwrap(), &tokens[..done]);
        if dice.roll(8) == 0 {
            engine.settle(0).unwrap();
        }
    }
    (bits(&all), engine.state_hash(0).unwrap())
}

#[test]
fn fault_016_fault_022_rejected_tokens_leave_no_trace() {
    for model in models(PLAIN) {
        on_gpu(model, sizes(), |engine| {
            let tokens = prompt(model, "budget_edge");
            let plain = bits(&logits_in_chunks(engine, &tokens, &[1]));
            let hash = engine.state_hash(0).unwrap();
            for seed in 0..if full() { 12 } else { 1 } {
                let (logits, after) = through_trials(engine, &tokens, &mut Dice(seed));
                assert!(logits == plain, "{model}, trials {seed}: logits");
                assert_eq!(after, hash, "{model}, trials {seed}: states");
            }
            // A reset forgets what is on trial.
            engine.forward(&[Feed::deferred(0, &[1, 2, 3, 4])]).unwrap();
            assert!(bits(&logits_in_chunks(engine, &tokens, &[256])) == plain, "{model}");
        });
    }
}

fn save<B: Backend>(engine: &mut Engine<B>, slot: usize) -> (Vec<Piece>, Snapshot) {
    let snapshot = engine.snapshot(slot).unwrap();
    let pieces = (0..snapshot.pieces()).map(|i| engine.piece(slot, i).unwrap()).collect();
    (pieces, snapshot)
}

/// What a slot is, and what comes of it: hash, draft logits, logits of `rest`, drafts again, hash.
fn future<B: Backend>(engine: &mut Engine<B>, slot: usize, rest: &[u32]) -> (Vec<u64>, Vec<f32>) {
    let mut hashes = vec![engine.state_hash(slot).unwrap()];
    let mut all = drafts(engine, slot, rest[0]);
    for (i, chunk) in rest.chunks(7).enumerate() {
        if i % 2 == 1 {
            let tried = Feed::deferred(slot, &chunk[..chunk.len().min(5)]);
            all.extend(engine.forward(&[tried]).unwrap());
            engine.decide(slot, 0).unwrap();
        }
        all.extend(engine.forward(&[Feed::new(slot, chunk, Want::All)]).unwrap());
    }
    all.extend(drafts(engine, slot, 5));
    hashes.push(engine.state_hash(slot).unwrap());
    (hashes, all)
}

fn drafts<B: Backend>(engine: &mut Engine<B>, slot: usize, token: u32) -> Vec<f32> {
    let (mut all, mut logits) = (Vec::new(), Vec::new());
    for token in [token, 9, 4].into_iter().take(if engine.has_mtp() { 3 } else { 0 }) {
        engine.draft(&[DraftStep { slot, token }], Head::Full, &mut logits).unwrap();
        all.append(&mut logits);
    }
    all
}

#[test]
fn fault_058_fault_059_fault_068_a_restored_slot_is_the_slot_that_computed_it() {
    for model in models(PLAIN) {
        on_gpu(model, sizes(), |engine| {
            let text = prompt(model, "chunk");
            // Around the ends of pieces and of sparse blocks.
            for at in if full() { vec![1, 2, 63, 64, 65, 90] } else { vec![66] } {
                engine.reset(0).unwrap();
                engine.prefill(0, &text[..at], Want::Nothing).unwrap();
                let (pieces, snapshot) = save(engine, 0);
                let (hashes, plain) = future(engine, 0, &text[at..at + 15]);
                // A slot that was used before.
                engine.reset(1).unwrap();
                engine.prefill(1, &text[20..31], Want::Nothing).unwrap();
                engine.restore(1, &pieces, &snapshot).unwrap();
                assert_eq!(engine.history(1).unwrap(), &text[..at]);
                let (hashes_again, again) = future(engine, 1, &text[at..at + 15]);
                assert!(bits(&again) == bits(&plain), "{model}, {at}: logits");
                assert_eq!(hashes_again, hashes, "{model}, {at}: states");
            }
        });
    }
}

/// Saved states have the same parts with the same sizes on both, and nearly the same values. An
/// engine still takes none of another device: the bits that follow would be neither one's.
#[test]
fn states_of_cpu_and_gpu_have_the_same_shape() {
    let model = "tiny-f32";
    let (tokens, checkpoint) = (prompt(model, "chunk")[..66].to_vec(), checkpoint(model));
    let cpu = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() });
    let mut cpu = Engine::new(cpu, &checkpoint, sizes(), &mut |_| {}).unwrap();
    on_gpu(model, sizes(), |gpu| {
        cpu.prefill(0, &tokens, Want::Nothing).unwrap();
        gpu.prefill(0, &tokens, Want::Nothing).unwrap();
        for (found, expected) in parts(gpu).iter().zip(&parts(&mut cpu)) {
            // Rounding, as for the recorded states.
            assert!(max_abs_difference(found, expected) <= 1e-4);
        }
        let ((gpu_pieces, of_gpu), (cpu_pieces, of_cpu)) = (save(gpu, 0), save(&mut cpu, 0));
        assert_eq!(gpu_pieces.len(), cpu_pieces.len());
        let refused = gpu.restore(1, &cpu_pieces, &of_cpu);
        assert!(matches!(refused, Err(Error::ForeignState)), "{refused:?}");
        let refused = cpu.restore(1, &gpu_pieces, &of_gpu);
        assert!(matches!(refused, Err(Error::ForeignState)), "{refused:?}");
    });
}

/// Everything that slot 0 keeps, layer by layer.
fn parts<B: Backend>(engine: &mut Engine<B>) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for layer in 0..engine.hyper_params().layers.len() {
        all.extend(engine.export_gdn(layer, 0).unwrap().into_iter().flat_map(|g| [g.s, g.conv]));
        let caches = engine.export_qsa(layer, 0).unwrap().into_iter();
        all.extend(caches.flat_map(|c| [c.k, c.v, c.index, c.blocks]));
    }
    all.extend(engine.export_ple(0).unwrap());
    all
}
