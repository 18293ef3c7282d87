//! The memory plan, held against what is really allocated.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]
#![allow(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::*;
use cpu::Isa;
use engine::memory::{LimitSource, MemoryLimit, MemoryPlan, Needed, Placement};
use engine::speculation::Head;
use engine::{
    DraftStep, DraftingBlock, Engine, EngineConfig, Error, ExpertSplit, Feed, NormExtent, Want,
};
use gguf::Gguf;
use kernels::rope::RopeScaling;
use kernels::{Commit, KvType};
use model::Checkpoint;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What an engine holds once all of its slots are full, in bytes: windows of all sizes were run,
/// also such that are on trial, and the drafting block has drafted.
fn held(checkpoint: &Checkpoint, config: EngineConfig) -> u64 {
    let before = counting::held();
    let mut engine = Engine::new(cpu(2, Isa::detect()), checkpoint, config, &mut |_| {}).unwrap();
    let mut logits = Vec::new();
    let tokens: Vec<u32> = (0..config.context as u32).map(|i| i * 7 % 500).collect();
    let last = config.deferred.max(1);
    for slot in 0..config.slots {
        engine.prefill(slot, &tokens[..config.context - last], Want::Nothing).unwrap();
        if config.mtp.is_some() {
            let steps = [DraftStep { slot, token: 5 }];
            engine.draft(&steps, Head::Full, &mut logits).unwrap();
        }
    }
    let ends = &tokens[config.context - last..];
    let commit = if config.deferred > 0 { Commit::Deferred } else { Commit::Now };
    // A window has room for so many.
    let together = (config.chunk / last).min(config.slots);
    for first in (0..config.slots).step_by(together) {
        let slots = first..config.slots.min(first + together);
        let feed = |slot| Feed { commit, ..Feed::new(slot, ends, Want::All) };
        let feeds: Vec<Feed<'_>> = slots.map(feed).collect();
        engine.forward_into(&feeds, &mut logits).unwrap();
    }
    let held = counting::held() - before;
    drop(engine);
    u64::try_from(held).unwrap()
}

/// Names and checkpoints of models with and without drafting block, n-grams and sparse attention.
fn models() -> Vec<(&'static str, Checkpoint)> {
    let sample = Gguf::open(root().join("models/sample/sample.gguf")).unwrap();
    vec![
        ("sample", Checkpoint::load(&sample).unwrap()),
        ("tiny-f32", checkpoint("tiny-f32")),
        ("quantmix", checkpoint("quantmix")),
    ]
}

fn configs(checkpoint: &Checkpoint) -> Vec<EngineConfig> {
    let plain = EngineConfig { context: checkpoint.hp.context.min(600), ..EngineConfig::default() };
    let drafting = EngineConfig { deferred: 9, chunk: 64, mtp: None, ..plain };
    let mut configs = vec![
        plain,
        EngineConfig { chunk: 512, kv: KvType::F16, ..plain },
        EngineConfig { chunk: 1, context: 70, ..plain },
        EngineConfig { slots: 5, kv: KvType::F16, ..drafting },
    ];
    if checkpoint.mtp.is_some() {
        let mtp = Some(NormExtent::Whole);
        configs.push(EngineConfig { mtp, ..drafting });
        configs.push(EngineConfig { mtp, slots: 4, chunk: 300, kv: KvType::Q8_0, ..drafting });
        configs.push(EngineConfig { mtp, deferred: 0, ..drafting });
    }
    configs
}

/// Never more than the plan, but for a tenth and a MiB: vectors that grow take up to twice what
/// they hold, and the engine has lists of its layers. Nor much less, or the plan would keep models
/// out that fit; that the tenth is enough there is what makes the plan one of this engine.
#[test]
fn the_plan_is_what_is_allocated() {
    let _alone = counting::alone();
    for (name, checkpoint) in models() {
        for config in configs(&checkpoint) {
            let plan = MemoryPlan::new(&checkpoint, &config).unwrap();
            let planned = plan.weights.vectors + plan.states.all() + plan.buffers;
            let held = held(&checkpoint, config);
            let off = planned.abs_diff(held);
            println!("{name}: planned {planned}, held {held}: {config:?}");
            assert!(off <= held / 10 + (1 << 20), "{name}: {planned} for {held}: {plan:?}");
        }
    }
}

/// With a context so long that the caches outweigh all else, the caches alone decide.
#[test]
fn full_caches_are_counted_to_the_row() {
    let _alone = counting::alone();
    let (_, checkpoint) = models().swap_remove(0);
    let context = 3000;
    let rope_scaling = RopeScaling::yarn(16.0, checkpoint.hp.context);
    let config = EngineConfig { context, chunk: 500, rope_scaling, ..EngineConfig::default() };
    let less = EngineConfig { context: 1500, ..config };
    let of = |config: EngineConfig| {
        let plan = MemoryPlan::new(&checkpoint, &config).unwrap();
        (plan.states.all(), held(&checkpoint, config))
    };
    let ((planned, held), (planned_less, held_less)) = (of(config), of(less));
    let (planned, held) = (planned - planned_less, held - held_less);
    // Tokens, and the positions that a thread attends at once, grow with the context too: by 8 and
    // by some hundred bytes a token where the caches take thousands.
    assert!(planned <= held && held <= planned + planned / 10, "{planned} planned, {held} held");
}

fn limit(bytes: u64) -> Option<MemoryLimit> {
    Some(MemoryLimit { bytes, source: LimitSource::Setting })
}

#[test]
fn a_device_holds_all_experts_or_some_or_none_and_the_others_are_beside_it() {
    let _alone = counting::alone();
    let (_, checkpoint) = models().swap_remove(0);
    let plan = MemoryPlan::new(&checkpoint, &EngineConfig::default()).unwrap();
    let experts = plan.weights.experts;
    let (whole, least) = (plan.on_device(), plan.smallest_on_device());
    assert_eq!(whole - least, experts.bytes);
    for enough in [None, limit(whole), limit(u64::MAX)] {
        assert_eq!(plan.place_on_device(enough, None).unwrap(), Placement::Device);
        let beside = plan.beside_device();
        assert_eq!(plan.place_on_device(enough, limit(beside)).unwrap(), Placement::Device);
        let error = plan.place_on_device(enough, limit(beside - 1)).unwrap_err();
        let Error::MemoryLimit(shortfall) = error else { panic!("{error}") };
        assert_eq!((shortfall.needed, shortfall.need), (Needed::Beside, beside));
    }
    let fixed = plan.beside_device() + plan.divided;
    for some in [least, least + experts.largest, whole - 1] {
        let device_bytes = some - least;
        let split = |cache_bytes| Placement::Split { device_bytes, cache_bytes };
        let enough = fixed + experts.beside(device_bytes);
        for host in [None, limit(enough)] {
            assert_eq!(plan.place_on_device(limit(some), host).unwrap(), split(None));
        }
        // Those that are held fit there, and the others here.
        let size = |tensor: &model::Tensor| tensor.bytes.len() as u64;
        let held = ExpertSplit::new(&checkpoint, DraftingBlock::Left, (device_bytes, &size), None);
        assert_eq!(held.count() as u64, experts.count());
        let each = experts.bytes / experts.count();
        assert_eq!(experts.largest, each, "all are alike in this model");
        assert_eq!(held.held() as u64, device_bytes / each);
        assert!((held.count() - held.held()) as u64 * each <= experts.beside(device_bytes));
        // They are read where there is no memory for them.
        let smallest = enough.min(fixed + experts.least);
        if smallest < enough {
            let read = plan.place_on_device(limit(some), limit(smallest)).unwrap();
            assert_eq!(read, split(Some(experts.least)));
        }
        let error = plan.place_on_device(limit(some), limit(smallest - 1)).unwrap_err();
        let Error::MemoryLimit(shortfall) = error else { panic!("{error}") };
        assert_eq!((shortfall.needed, shortfall.need), (Needed::Divided, smallest));
    }
    let error = plan.place_on_device(limit(least - 1), None).unwrap_err();
    let Error::MemoryLimit(shortfall) = error else { panic!("{error}") };
    assert_eq!((shortfall.needed, shortfall.need), (Needed::Device, least));
}

#[test]
fn experts_are_mapped_if_all_fit_stored_if_some_do_and_else_there_is_an_error() {
    let _alone = counting::alone();
    let (_, checkpoint) = models().swap_remove(0);
    let config = EngineConfig::default();
    let plan = MemoryPlan::new(&checkpoint, &config).unwrap();
    let experts = plan.weights.experts;
    assert!(experts.least < experts.bytes && experts.largest > 0);
    let (fixed, whole, smallest) = (plan.fixed(), plan.whole(), plan.smallest());
    assert_eq!([whole - fixed, smallest - fixed], [experts.bytes, experts.least]);
    for enough in [None, limit(whole), limit(u64::MAX)] {
        assert_eq!(plan.place(enough).unwrap(), Placement::Mapped);
    }
    for some in [smallest, whole - 1] {
        let cache_bytes = some - fixed;
        assert_eq!(plan.place(limit(some)).unwrap(), Placement::Stored { cache_bytes });
        let held = experts.held(cache_bytes);
        assert!(held >= 2 * experts.used as u64 && held * experts.largest <= cache_bytes);
    }
    for short in [0, fixed - 1, smallest - 1] {
        let Err(Error::MemoryLimit(shortfall)) = plan.place(limit(short)) else {
            panic!("{short} bytes are enough")
        };
        assert_eq!((shortfall.need, shortfall.limit.bytes), (smallest, short));
        assert_eq!(shortfall.setting(), format!("--ram {}M", smallest.div_ceil(1 << 20)));
        assert!(shortfall.to_string().contains(&format!("{} would do", shortfall.setting())));
    }
}

#[test]
fn a_context_that_is_told_to_fit_does() {
    let _alone = counting::alone();
    let (_, checkpoint) = models().swap_remove(0);
    let mtp = Some(NormExtent::Whole);
    for (mtp, slots, kv) in [(None, 1, KvType::F32), (mtp, 3, KvType::Q8_0)] {
        let config = EngineConfig { slots, kv, mtp, context: 1000, ..EngineConfig::default() };
        let plan =
            |context| MemoryPlan::new(&checkpoint, &EngineConfig { context, ..config }).unwrap();
        let short = plan(700).smallest();
        let Err(Error::MemoryLimit(shortfall)) = plan(1000).place(limit(short)) else {
            panic!("{short} bytes are enough")
        };
        let context = shortfall.context().unwrap();
        assert!(context <= 700 && plan(context).smallest() <= short, "{context} tokens");
        assert!(shortfall.to_string().contains(&format!("so would --ctx {context};")));
        let Err(Error::MemoryLimit(shortfall)) = plan(1000).place(limit(0)) else {
            panic!("nothing is enough")
        };
        assert_eq!(shortfall.context(), None);
    }
}

#[test]
fn sizes_that_the_model_does_not_have_are_refused() {
    let _alone = counting::alone();
    let checkpoint = checkpoint("tiny-f32");
    let of = |config: EngineConfig| MemoryPlan::new(&checkpoint, &config);
    let config = EngineConfig { context: 100, ..EngineConfig::default() };
    let none = EngineConfig { slots: 0, ..config };
    assert!(matches!(of(none), Err(Error::BadSetting { what: "slots", .. })));
    let long = EngineConfig { context: checkpoint.hp.context + 1, ..config };
    assert!(matches!(of(long), Err(Error::ContextTooLong { .. })));
    // No sum or product of such sizes overflows.
    let huge = EngineConfig { slots: usize::MAX, chunk: usize::MAX, ..config };
    assert_eq!(of(huge).unwrap().fixed(), u64::MAX);
    // A block that is asked for and is not there takes nothing.
    let mtp = EngineConfig { mtp: Some(NormExtent::Whole), ..config };
    assert_eq!(of(mtp).unwrap().states.drafting, 0);
}

#[test]
fn saved_states_get_what_the_model_leaves() {
    let _alone = counting::alone();
    let checkpoint = checkpoint("tiny-f32");
    let plan = MemoryPlan::new(&checkpoint, &config(2, 16)).unwrap();
    let given = |bytes, asked| {
        let limit = MemoryLimit { bytes, source: LimitSource::Setting };
        plan.saved_states(Some(limit), asked)
    };
    let (whole, least) = (plan.whole(), plan.smallest());
    assert_eq!(plan.saved_states(None, 1 << 40), 1 << 40);
    assert_eq!(given(whole + 1000, 1 << 30), 1000);
    assert_eq!(given(whole + 1000, 10), 10);
    // Experts of which some are read need most of what is left.
    assert_eq!(given(least + 800, 1 << 30), 100);
    assert_eq!((given(least, 1 << 30), given(0, 1 << 30)), (0, 0));
    // What is given leaves the model where it can run.
    for more in 0..100 {
        let bytes = least + more * (whole - least) / 50;
        let left = bytes - given(bytes, 1 << 30);
        let limit = MemoryLimit { bytes: left, source: LimitSource::Setting };
        let placed = plan.place(Some(limit)).unwrap();
        assert_eq!(placed == Placement::Mapped, bytes >= whole, "{bytes} of {whole}");
    }
}
