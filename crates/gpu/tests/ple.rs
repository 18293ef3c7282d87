//! N-gram features against the reference, and the same bits however a sequence comes.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::script::*;
use common::*;
use gguf::TensorType;
use kernels::ple::PleInput;
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Device, Error, Head, Ple, PleShape, PleWeights, Window};
use lab::{Random, weight_types};

fn shape(streams: usize, width: usize, kernel: usize, dilation: usize) -> PleShape {
    PleShape { streams, width, kernel, dilation, eps: 1e-6 }
}

/// Weights and inputs of a layer.
struct Layer {
    shape: PleShape,
    norms: [Vec<f32>; 3],
    taps: Vec<f32>,
    key: Positions,
    value: Positions,
    x: Positions,
}

impl Layer {
    fn new(shape: PleShape) -> Self {
        let mut random = Random::new(7);
        let wide = shape.channels();
        let mut draw = |len: usize| random.values(len, 1.0);
        let norms = [(); 3].map(|()| draw(wide));
        let taps = draw(wide * shape.kernel);
        let mut rows = |width: usize| Positions::new(width, draw(SLOTS * TOKENS * width));
        let (key, value, x) = (rows(wide), rows(shape.width), rows(wide));
        Self { shape, norms, taps, key, value, x }
    }

    /// The streams of every position, and the slots' histories.
    fn run<D: Ple>(
        &mut self,
        device: &mut D,
        windows: &[Window],
        vector: fn(&mut D, &[f32]) -> D::Vector,
    ) -> (Positions, Vec<Vec<f32>>) {
        let shape = self.shape;
        let mut state = device.new_ple_state(&shape, SLOTS, DEFERRED).unwrap();
        let [norm_key, norm_query, norm_conv] =
            [0, 1, 2].map(|i: usize| vector(device, &self.norms[i]));
        let taps = vector(device, &self.taps);
        let w = PleWeights {
            norm_key: &norm_key,
            norm_query: &norm_query,
            norm_conv: &norm_conv,
            taps: &taps,
        };
        let mut out = Positions::unknown(shape.channels());
        for window in windows {
            let [key, value, mut x] = [&mut self.key, &mut self.value, &mut self.x]
                .map(|values| upload(device, &values.rows(window)));
            let input = PleInput { key: &key, value: &value, state: &mut state };
            device.ple_mix(&shape, &w, window, input, &mut x);
            out.set(window, &download(device, &x, window.rows() * shape.channels()));
        }
        (out, (0..SLOTS).map(|slot| device.export_ple(&state, slot)).collect())
    }

    fn on_gpu(&mut self, gpu: &mut gpu::Gpu, windows: &[Window]) -> (Positions, Vec<Vec<f32>>) {
        self.run(gpu, windows, upload)
    }
}

/// The model's taps and distance, wide and narrow; one tap, which has no history; a history that is
/// longer than a chunk.
const SHAPES: [(usize, usize, usize, usize); 4] =
    [(4, 2560, 4, 3), (4, 40, 4, 3), (3, 33, 1, 3), (2, 21, 4, 11)];

fn shapes() -> impl Iterator<Item = PleShape> {
    SHAPES
        .into_iter()
        .map(|(streams, width, kernel, dilation)| shape(streams, width, kernel, dilation))
}

#[test]
fn the_mix_agrees_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    for shape in shapes() {
        let mut layer = Layer::new(shape);
        // The other ways have the same bits.
        for (_, windows) in scripts().iter().filter(|(name, _)| *name == "set aside") {
            let (found, found_slots) = layer.on_gpu(&mut gpu, windows);
            let (want, want_slots) = layer.run(&mut Reference, windows, |_, v| v.to_vec());
            // Sums of up to 2560 products in f32. The gate's root makes up to 500 times as much of
            // what is lost where its argument is nearly zero, but a gate is one factor of few.
            let check = |what: &str, found: &[f32], want: &[f32]| {
                near(found, want, 1e-4).unwrap_or_else(|e| panic!("{what} of {shape:?}: {e}"));
            };
            check("streams", &found.values, &want.values);
            check("histories", &found_slots.concat(), &want_slots.concat());
        }
    }
}

#[test]
fn bits_do_not_depend_on_windows_company_or_replay() {
    let Some(mut gpu) = gpu() else { return };
    for shape in shapes().skip(1) {
        let mut layer = Layer::new(shape);
        let mut expected = None;
        for (name, windows) in scripts() {
            let (mut streams, slots) = layer.on_gpu(&mut gpu, &windows);
            let of = |slot: usize, streams: &mut Positions| {
                (bits(streams.slot(slot)), bits(&slots[slot]))
            };
            let found = [of(0, &mut streams), of(2, &mut streams)];
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "{name}, {shape:?}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_slot() {
    let Some(mut gpu) = gpu() else { return };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (_, windows) in scripts().into_iter().skip(4) {
            let mut layer = Layer::new(shape(2, 24, 4, 3));
            let (mut clean, slots) = layer.on_gpu(&mut gpu, &windows);
            layer.key.slot(2).fill(bad);
            let (mut dirty, dirty_slots) = layer.on_gpu(&mut gpu, &windows);
            assert_eq!(bits(dirty.slot(0)), bits(clean.slot(0)), "{bad}");
            assert_eq!(bits(&dirty_slots[0]), bits(&slots[0]), "{bad}");
            assert!(dirty.slot(2).iter().all(|x| x.is_nan()), "{bad}");
        }
    }
}

#[test]
fn a_gate_has_no_sign_at_zero_and_a_floor_near_it() {
    let Some(mut gpu) = gpu() else { return };
    let windows = &scripts()[0].1;
    let mut layer = Layer::new(shape(2, 16, 1, 1));
    for key in [0.0, -0.0, 1e-30, -1e-30] {
        layer.key.values.fill(key);
        layer.x.values.fill(1.0);
        layer.norms[..2].iter_mut().for_each(|norm| norm.fill(1.0));
        let (found, _) = layer.on_gpu(&mut gpu, windows);
        let (want, _) = layer.run(&mut Reference, windows, |_, v| v.to_vec());
        // Sums of 16 products and two elementary functions.
        near(&found.values, &want.values, 1e-5).unwrap_or_else(|e| panic!("{key}: {e}"));
    }
}

#[test]
fn histories_travel_and_a_foreign_one_is_refused() {
    let Some(mut gpu) = gpu() else { return };
    let shape = shape(2, 24, 4, 3);
    let (_, slots) = Layer::new(shape).on_gpu(&mut gpu, &scripts()[3].1);
    let mut state = gpu.new_ple_state(&shape, SLOTS, DEFERRED).unwrap();
    gpu.import_ple(&mut state, 1, &slots[0]).unwrap();
    for wrong in [&slots[0][1..], &[], &[&slots[0][..], &[0.0]].concat()] {
        let error = gpu.import_ple(&mut state, 1, wrong).unwrap_err();
        assert!(matches!(error, Error::StateSize { .. }), "{error}");
    }
    assert_eq!(gpu.export_ple(&state, 1), slots[0]);
    for other in [0, 2] {
        assert!(gpu.export_ple(&state, other).iter().all(|&x| x == 0.0), "slot {other}");
    }
    gpu.reset_ple(&mut state, 1);
    assert!(gpu.export_ple(&state, 1).iter().all(|&x| x == 0.0));
}

#[test]
fn gathered_rows_are_the_definition_s_wherever_the_table_lies() {
    let Some(mut gpu) = gpu() else { return };
    for ty in weight_types() {
        let table = weight(ty, "rand", WeightShape { n_in: 256, n_out: 50, experts: 1 });
        let ids: Vec<u64> = (0..50).rev().chain([7, 7, 49]).collect();
        let mut want = vec![0.0; ids.len() * 256];
        for (row, &id) in want.chunks_mut(256).zip(&ids) {
            table.decode_row(id as usize, row);
        }
        let on_host = gpu.load_table(&table).unwrap();
        let on_device = gpu.load_matrix(&table, Default::default()).unwrap();
        for table in [on_host, on_device] {
            let mut e = upload(&mut gpu, &vec![f32::NAN; want.len() + 256]);
            gpu.ple_gather(&table, &ids, &mut e);
            let found = download(&mut gpu, &e, want.len() + 256);
            // A device may make zeros of denormal numbers; the host does not.
            let same = |(f, w): (&f32, &f32)| f == w || w.abs() < f32::MIN_POSITIVE && *f == 0.0;
            assert!(found.iter().zip(&want).all(same), "{}", ty.name());
            assert!(found[want.len()..].iter().all(|x| x.is_nan()));
        }
    }
    for ty in [TensorType::Q8_K, TensorType::I32] {
        let bytes = vec![0; 256 / ty.block_elements() * ty.block_bytes()];
        let shape = WeightShape { n_in: 256, n_out: 1, experts: 1 };
        let table = kernels::Weight::new("per_layer_token_embd", ty, shape, bytes.into()).unwrap();
        let error = gpu.load_table(&table).unwrap_err().to_string();
        assert!(error.contains("per_layer_token_embd"), "{error}");
    }
}

/// More rows than the first room for small inputs holds, between operations that they must not
/// overtake.
#[test]
fn rows_of_a_table_come_in_the_order_of_the_calls() {
    let Some(mut gpu) = gpu() else { return };
    let width = 256;
    let values = Random::new(3).values(400 * width, 1.0);
    let table = gpu.load_table(&f32_weight(width, 400, &values)).unwrap();
    let (mut e, mut kept) =
        (upload(&mut gpu, &vec![0.0; 400 * width]), gpu.alloc(3 * width).unwrap());
    for (i, first) in [0u64, 100, 50].into_iter().enumerate() {
        let ids: Vec<u64> = (0..300).map(|id| id + first).collect();
        gpu.ple_gather(&table, &ids, &mut e);
        gpu.gather_rows(&e, &[299], width, (&mut kept, i));
    }
    let found = download(&mut gpu, &kept, 3 * width);
    let row = |id: usize| &values[id * width..][..width];
    assert_eq!(found, [row(299), row(399), row(349)].concat());
}
