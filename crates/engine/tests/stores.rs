//! Experts and table rows that are read as they are wanted: the same bits as from the mapped file,
//! whatever is in memory.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use cpu::{Cpu, Isa};
use engine::DraftingBlock::Loaded;
use engine::store::Way;
use engine::{Ahead, Engine, EngineConfig, Feed, StoreSettings, Stores, Want, WeightHomes};
use kernels::Backend;
use model::Checkpoint;
use std::path::Path;

/// A store with the smallest memory that works, and a few threads.
fn smallest(checkpoint: &Checkpoint) -> StoreSettings {
    let mut settings =
        StoreSettings { experts: Some(0), table: 0, threads: 3, ..StoreSettings::default() };
    let error = Stores::open(checkpoint, Loaded, settings).unwrap_err();
    let engine::Error::Store(engine::store::StoreError::TooSmall { need, .. }) = error else {
        panic!("{error}");
    };
    settings.experts = Some(need);
    settings
}

fn stored<B: Backend>(
    backend: B,
    checkpoint: &Checkpoint,
    config: EngineConfig,
    settings: StoreSettings,
) -> Engine<B> {
    let stores = Stores::open(checkpoint, Loaded, settings).unwrap();
    let homes = WeightHomes { stores: Some(stores), split: None };
    Engine::with_homes(backend, checkpoint, config, homes, &mut |_| {}).unwrap()
}

#[test]
fn any_memory_gives_the_same_bits() {
    for model in MODELS {
        let checkpoint = checkpoint(model);
        let tokens = prompt(model, "long");
        let mut mapped = cpu_engine(model, config(1, 64));
        let want = bits(&logits_in_chunks(&mut mapped, &tokens, &[64]));
        let least = smallest(&checkpoint);
        let least_bytes = least.experts.unwrap();
        for experts in [least_bytes, 3 * least_bytes, 1 << 30] {
            for ahead in [Ahead::Never, Ahead::NextLayer] {
                // Direct reads where much is read.
                let way = if experts == least_bytes { Way::Direct } else { Way::Cached };
                let settings = StoreSettings { experts: Some(experts), ahead, way, ..least };
                let backend = cpu(2, Isa::detect());
                let mut engine = stored(backend, &checkpoint, config(1, 64), settings);
                for chunks in [&[64][..], &[3, 1, 17]] {
                    let found = bits(&logits_in_chunks(&mut engine, &tokens, chunks));
                    assert!(found == want, "{model} in {chunks:?} with {settings:?}");
                }
                let counters = engine.stores().unwrap().counters();
                assert!(counters.bytes > 0 && counters.failed == 0, "{counters:?}");
                assert!(counters.held <= counters.wanted);
                if experts == 1 << 30 {
                    let all = counters.bytes;
                    assert!(all <= engine::layout(&checkpoint, Loaded).unwrap().bytes());
                } else if experts == least_bytes {
                    assert!(counters.dropped > 0, "{counters:?}");
                }
            }
        }
    }
}

#[test]
fn activations_in_f32_and_the_reference_agree_too() {
    let model = "quantmix";
    let checkpoint = checkpoint(model);
    let tokens = prompt(model, "budget_edge");
    let settings = smallest(&checkpoint);
    let mut mapped = engine_on(exact_cpu(2, Isa::detect()), model, config(1, 16));
    let want = bits(&logits_in_chunks(&mut mapped, &tokens, &[16]));
    let backend = exact_cpu(2, Isa::detect());
    let mut engine = stored(backend, &checkpoint, config(1, 16), settings);
    assert!(bits(&logits_in_chunks(&mut engine, &tokens, &[16])) == want);

    // A device without a use for the store takes the mapped file, and the table's rows.
    let mut mapped = engine_on(kernels::reference::Reference, model, config(1, 16));
    let want = bits(&logits_in_chunks(&mut mapped, &tokens, &[16]));
    let backend = kernels::reference::Reference;
    let mut engine = stored(backend, &checkpoint, config(1, 16), settings);
    assert!(bits(&logits_in_chunks(&mut engine, &tokens, &[16])) == want);
}

#[test]
fn drafts_and_several_slots_share_a_store() {
    let model = "tiny-f32";
    let open = |name: &str| gguf::Gguf::open(fixture(name)).unwrap();
    let (file, mtp) = (open("tiny-f32.gguf"), open("tiny-f32-mtp.gguf"));
    let checkpoint = Checkpoint::load_with_mtp(&file, &mtp).unwrap();
    let own = EngineConfig { mtp: Some(engine::NormExtent::PerStream), ..config(2, 16) };
    let run = |engine: &mut Engine<Cpu>| {
        let mut all = Vec::new();
        let tokens = prompt(model, "long");
        for (n, token) in tokens.iter().take(40).enumerate() {
            let other = tokens[n + 1];
            let feeds = [
                Feed::new(0, std::slice::from_ref(token), Want::Last),
                Feed::new(1, std::slice::from_ref(&other), Want::Last),
            ];
            all.extend(bits(&engine.forward(&feeds).unwrap()));
            if engine.hyper_params().mtp_layers > 0 {
                let mut logits = Vec::new();
                let step = engine::DraftStep { slot: 0, token: other };
                engine.draft(&[step], engine::speculation::Head::Full, &mut logits).unwrap();
                all.extend(bits(&logits));
            }
        }
        all
    };
    let mut mapped = Engine::new(cpu(2, Isa::detect()), &checkpoint, own, &mut |_| {}).unwrap();
    assert_eq!(mapped.hyper_params().mtp_layers, 1);
    let want = run(&mut mapped);
    let mut engine = stored(cpu(2, Isa::detect()), &checkpoint, own, smallest(&checkpoint));
    assert!(run(&mut engine) == want);
}

#[test]
fn hot_experts_are_there_at_the_next_start() {
    let model = "tiny-f32";
    let checkpoint = checkpoint(model);
    let folder = std::env::temp_dir().join(format!("tuff-hot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tiny.hot");
    let settings = StoreSettings { experts: Some(1 << 30), ..smallest(&checkpoint) };
    let tokens = prompt(model, "long");
    let mut engine = stored(cpu(1, Isa::detect()), &checkpoint, config(1, 64), settings);
    engine.prefill(0, &tokens, Want::Last).unwrap();
    let stores = engine.stores().unwrap();
    assert!(!stores.warm(&path).unwrap(), "there is no file yet");
    stores.save_profile(&path).unwrap();

    let again = Stores::open(&checkpoint, Loaded, settings).unwrap();
    assert!(again.warm(&path).unwrap());
    let held = |stores: &Stores| stores.experts().unwrap().size().held;
    while held(&again) < held(stores) {
        std::thread::yield_now();
    }
    let other = self::checkpoint("quantmix");
    let other = Stores::open(&other, Loaded, smallest(&other)).unwrap();
    assert!(!other.warm(&path).unwrap(), "a list of another model is none of this one's");
    std::fs::write(&path, "damaged").unwrap();
    assert!(again.warm(&path).is_err());
    stores.save_profile(&path).unwrap();
    assert!(again.warm(&path).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A copy of a model that a test may spoil.
fn copy(model: &str, name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("tuff-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.gguf");
    std::fs::copy(fixture(&format!("{model}.gguf")), &path).unwrap();
    path
}

fn open(path: &Path) -> Checkpoint {
    // Read, not mapped: the rest of the model survives what is done to the file.
    let options = gguf::OpenOptions { read: gguf::ReadMode::Read };
    Checkpoint::load(&gguf::Gguf::open_with(path, options).unwrap()).unwrap()
}

#[test]
fn a_file_that_is_cut_short_or_written_to_is_an_error_and_never_a_wrong_answer() {
    let model = "quantmix";
    let tokens = prompt(model, "long");
    for fault in ["cut", "written"] {
        let path = copy(model, fault);
        let checkpoint = open(&path);
        let settings = smallest(&checkpoint);
        let mut engine = stored(cpu(2, Isa::detect()), &checkpoint, config(2, 64), settings);
        engine.forward(&[Feed::new(0, &tokens[..4], Want::Last)]).unwrap();
        // A later time, whatever the clock's step.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        match fault {
            "cut" => file.set_len(file.metadata().unwrap().len() / 2).unwrap(),
            _ => file.set_len(file.metadata().unwrap().len() + 1).unwrap(),
        }
        let result = engine.forward(&[Feed::new(1, &tokens[..40], Want::Last)]);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        assert!(engine.is_broken(1).unwrap());
        // The slot that was in no window is as it was, and its next window fails for its own part.
        assert!(!engine.is_broken(0).unwrap());
        engine.reset(1).unwrap();
        assert!(engine.forward(&[Feed::new(1, &tokens[..40], Want::Nothing)]).is_err());
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

#[test]
fn a_file_that_is_replaced_goes_on_as_it_was_opened() {
    let model = "quantmix";
    let tokens = prompt(model, "long");
    let mut mapped = cpu_engine(model, config(1, 64));
    let want = bits(&logits_in_chunks(&mut mapped, &tokens, &[8]));
    let path = copy(model, "replaced");
    let checkpoint = open(&path);
    let settings = smallest(&checkpoint);
    let mut engine = stored(cpu(2, Isa::detect()), &checkpoint, config(1, 64), settings);
    std::fs::rename(fixture_copy(&path), &path).unwrap();
    assert!(bits(&logits_in_chunks(&mut engine, &tokens, &[8])) == want);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// Another file beside `path`, of the same length and without sense.
fn fixture_copy(path: &Path) -> std::path::PathBuf {
    let other = path.with_extension("other");
    std::fs::write(&other, vec![0x55; path.metadata().unwrap().len() as usize]).unwrap();
    other
}
