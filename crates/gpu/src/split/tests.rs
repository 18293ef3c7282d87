//! Divided experts: each pair has the bits of the side that has its expert, and faults of both
//! sides are told.

use super::*;
use crate::testing::gpu;
use gguf::TensorType;
use kernels::stored::{ExpertSource, StoredExperts, TakenExpert};
use kernels::weight::WeightShape;
use lab::Random;
use std::path::Path;
use std::sync::Arc;

const EXPERTS: usize = 7;
const USED: usize = 3;
const WIDTH: usize = 256;

/// Valid blocks of the format fixtures in any number.
fn weight(ty: TensorType, n_in: usize, n_out: usize, seed: usize) -> Weight {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    let all = std::fs::read(folder.join(format!("{}.rand.bin", ty.name()))).unwrap();
    let all: Vec<&[u8]> = all.chunks_exact(ty.block_bytes()).collect();
    let count = n_in * n_out * EXPERTS / ty.block_elements();
    let block = |i: usize| all[(i + seed) * 7 % all.len()].to_vec();
    let bytes: Vec<u8> = (0..count).flat_map(block).collect();
    let shape = WeightShape { n_in, n_out, experts: EXPERTS };
    Weight::new(ty.name(), ty, shape, bytes.into()).unwrap()
}

/// The stacks of a layer.
struct Stacks {
    gate_up: Vec<Weight>,
    down: Weight,
}

impl Stacks {
    fn separate(ty: TensorType, hidden: usize) -> Self {
        let gate_up = vec![weight(ty, WIDTH, hidden, 1), weight(ty, WIDTH, hidden, 2)];
        Self { gate_up, down: weight(ty, hidden, WIDTH, 3) }
    }

    fn fused(ty: TensorType, hidden: usize) -> Self {
        let gate_up = vec![weight(ty, WIDTH, 2 * hidden, 4)];
        Self { gate_up, down: weight(ty, hidden, WIDTH, 5) }
    }
}

/// What a layer's experts are given.
struct Given<'a, B> {
    logits: Vec<f32>,
    u: Vec<f32>,
    stored: Option<&'a StoredExperts>,
    /// Done just before the experts are.
    before: &'a dyn Fn(&mut B),
}

impl<B> Given<'_, B> {
    fn new(rows: usize) -> Self {
        let values = |seed, len| Random::new(seed).values(len, 1.0);
        let (logits, u) = (values(rows as u64, rows * EXPERTS), values(99, rows * WIDTH));
        Self { logits, u, stored: None, before: &|_| {} }
    }
}

/// Results of all pairs `[rows * USED, WIDTH]` as bits, on any device.
fn results<B: Device + Moe>(
    device: &mut B,
    stacks: &Stacks,
    load: &dyn Fn(&mut B, &Weight) -> B::Matrix,
    given: &Given<'_, B>,
) -> Result<Vec<u32>, Error> {
    let Given { logits, u, stored, before } = given;
    let rows = logits.len() / EXPERTS;
    let first: Vec<B::Matrix> = stacks.gate_up.iter().map(|w| load(device, w)).collect();
    let down = load(device, &stacks.down);
    let gate_up = match &first[..] {
        [gate, up] => GateUp::Separate { gate, up },
        [both] => GateUp::Fused(both),
        _ => unreachable!(),
    };
    let mut buffer = |values: &[f32]| {
        let mut buffer = device.alloc(values.len()).unwrap();
        device.upload(values, &mut buffer);
        buffer
    };
    let (logits, u) = (buffer(logits), buffer(u));
    let mut act = buffer(&vec![f32::NAN; rows * USED * stacks.down.n_in()]);
    let mut part = buffer(&vec![f32::NAN; rows * USED * WIDTH]);
    let mut plan = device.new_plan();
    let choice = MoeChoice { experts: EXPERTS, used: USED };
    device.moe_plan(&logits, rows, choice, &mut plan);
    let experts = ExpertMatrices { gate_up, down: &down, stored: *stored };
    before(device);
    device.moe_experts(&plan, experts, &u, (&mut act, &mut part));
    let mut out = vec![0.0; rows * USED * WIDTH];
    device.download(&part, &mut out)?;
    Ok(out.iter().map(|x| x.to_bits()).collect())
}

fn processors() -> Cpu {
    Cpu::new(CpuOptions { threads: 2, ..CpuOptions::default() })
}

fn held(numbers: &[usize]) -> [bool; EXPERTS] {
    std::array::from_fn(|expert| numbers.contains(&expert))
}

#[test]
fn a_pair_has_the_bits_of_the_side_that_has_its_expert() {
    let Some(mut gpu) = gpu() else { return };
    gpu.set_host(processors);
    let kinds = [
        (Stacks::separate(TensorType::Q8_0, 64), u64::MAX),
        (Stacks::fused(TensorType::F32, 40), u64::MAX),
        // Every expert is in a buffer of its own.
        (Stacks::separate(TensorType::IQ2_S, 256), 60 << 10),
    ];
    for (stacks, limit) in &kinds {
        let name = stacks.down.name();
        for rows in [1, 2, 5, 40] {
            gpu.part_limit = u64::MAX;
            let whole = |gpu: &mut Gpu, w: &Weight| gpu.load(w, Activations::Int8).unwrap();
            let on_gpu = results(&mut gpu, stacks, &whole, &Given::new(rows)).unwrap();
            let load = |cpu: &mut Cpu, w: &Weight| cpu.load_matrix(w, Activations::Int8).unwrap();
            let on_cpu = results(&mut processors(), stacks, &load, &Given::new(rows)).unwrap();
            assert_ne!(on_gpu, on_cpu, "a test of nothing");
            let mut chosen = host::Plan::default();
            chosen
                .build(&Given::<Gpu>::new(rows).logits, MoeChoice { experts: EXPERTS, used: USED });
            gpu.part_limit = *limit;
            for some in [&[][..], &[4], &[0, 1, 5], &[1, 2, 3, 4, 5, 6], &[0, 1, 2, 3, 4, 5, 6]] {
                let held = held(some);
                let load = |gpu: &mut Gpu, w: &Weight| {
                    gpu.load_experts(w, Activations::Int8, &held).unwrap()
                };
                let found = results(&mut gpu, stacks, &load, &Given::new(rows)).unwrap();
                for (pair, &expert) in chosen.experts().iter().enumerate() {
                    let want = if held[expert as usize] { &on_gpu } else { &on_cpu };
                    let own = pair * WIDTH..(pair + 1) * WIDTH;
                    assert!(
                        found[own.clone()] == want[own],
                        "{name}, {rows} rows, {some:?}, {pair}"
                    );
                }
            }
        }
    }
}

/// Only what is held takes memory of the device.
#[test]
fn experts_that_are_not_held_take_no_memory_of_the_device() {
    let Some(mut gpu) = gpu() else { return };
    gpu.set_host(processors);
    let weight = weight(TensorType::Q8_0, WIDTH, 256, 0);
    let mut bytes = |some: &[usize]| {
        let before = gpu.recorder.allocator.used();
        let matrix = gpu.load_experts(&weight, Activations::Int8, &held(some)).unwrap();
        let used = gpu.recorder.allocator.used() - before;
        drop(matrix);
        used
    };
    let one = crate::weight_bytes(TensorType::Q8_0, WIDTH, 256).unwrap();
    assert_eq!(
        [&[][..], &[3], &[0, 6], &[0, 1, 2, 4, 5, 6]].map(&mut bytes),
        [0, 1, 2, 6].map(|n| n * one)
    );
}

/// A store whose disk is gone, or one that holds everything.
#[derive(Debug)]
enum Source {
    Broken,
    Whole { stacks: Box<[Weight; 3]>, wanted: std::sync::Mutex<Vec<usize>> },
}

impl ExpertSource for Source {
    fn want(&self, _: usize, experts: &mut dyn Iterator<Item = usize>, _: usize) {
        if let Self::Whole { wanted, .. } = self {
            wanted.lock().unwrap().extend(experts);
        }
    }

    fn take(&self, taken: &mut Vec<TakenExpert>) -> Result<(), Error> {
        let Self::Whole { stacks, wanted } = self else {
            return Err(Error::Storage { why: "the disk is gone".to_owned() });
        };
        taken.clear();
        for (place, expert) in wanted.lock().unwrap().drain(..).enumerate() {
            let of = |w: &Weight| {
                let bytes = w.n_out() * w.row_bytes();
                w.bytes()[expert * bytes..(expert + 1) * bytes].to_vec().into()
            };
            taken.push(TakenExpert { place, parts: stacks.each_ref().map(of) });
        }
        Ok(())
    }

    fn expect(&self, _: usize, _: &[u32]) {}

    fn resident(&self, _: usize, _: &mut [bool]) {}
}

#[test]
fn the_others_may_come_from_a_store_and_its_faults_are_told() {
    let Some(mut gpu) = gpu() else { return };
    gpu.set_host(processors);
    let stacks = Stacks::separate(TensorType::Q8_0, 64);
    let given = Given::new(6);
    let held = held(&[2, 5]);
    let load = |gpu: &mut Gpu, w: &Weight| gpu.load_experts(w, Activations::Int8, &held).unwrap();
    let want = results(&mut gpu, &stacks, &load, &given).unwrap();
    let stored = |source| StoredExperts { source: Arc::new(source), layer: 0 };
    let broken = stored(Source::Broken);
    let given = Given { stored: Some(&broken), ..given };
    let error = results(&mut gpu, &stacks, &load, &given).unwrap_err();
    assert!(matches!(&error, Error::Storage { why } if why.contains("gone")), "{error}");
    let all = [&stacks.gate_up[0], &stacks.gate_up[1], &stacks.down].map(Weight::clone);
    let whole = stored(Source::Whole { stacks: Box::new(all), wanted: Default::default() });
    let given = Given { stored: Some(&whole), ..given };
    for _ in 0..2 {
        let found = results(&mut gpu, &stacks, &load, &given).unwrap();
        assert!(found == want, "after a fault");
    }
}

#[test]
fn a_device_that_is_lost_is_told() {
    let Some(mut gpu) = gpu() else { return };
    gpu.set_host(processors);
    let stacks = Stacks::separate(TensorType::Q8_0, 64);
    let held = held(&[2, 5]);
    let load = |gpu: &mut Gpu, w: &Weight| gpu.load_experts(w, Activations::Int8, &held).unwrap();
    let given = Given::new(4);
    results(&mut gpu, &stacks, &load, &given).unwrap();
    let lost = Given { before: &|gpu: &mut Gpu| gpu.recorder.destroy(), ..given };
    let error = results(&mut gpu, &stacks, &load, &lost).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
}
