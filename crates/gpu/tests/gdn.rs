//! Gated DeltaNet against the reference, and the same bits however a sequence comes.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::script::*;
use common::*;
use gguf::TensorType;
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Error, Gdn, GdnShape, Gemv, Weight, Window};
use lab::Random;

fn shape(heads: (usize, usize), head_dim: usize, conv_kernel: usize) -> GdnShape {
    GdnShape { key_heads: heads.0, value_heads: heads.1, head_dim, conv_kernel, eps: 1e-6 }
}

/// Weights and inputs of a layer.
struct Layer {
    shape: GdnShape,
    taps: Vec<f32>,
    a: Vec<f32>,
    dt: Vec<f32>,
    norm: Vec<f32>,
    m: Positions,
    alpha: Positions,
    beta: Positions,
    z: Positions,
}

/// What came out: the convolution's and the gate's result of every position, the slots' states.
struct Results {
    qkv: Positions,
    o: Positions,
    slots: Vec<GdnSlot>,
}

impl Layer {
    fn new(shape: GdnShape) -> Self {
        let mut random = Random::new(5);
        let heads = shape.value_heads;
        let mut draw = |len: usize, scale: f32| random.values(len, scale);
        let taps = draw(shape.channels() * shape.conv_kernel, 0.7);
        let a = draw(heads, 1.0).iter().map(|a| -a.abs()).collect();
        let (dt, norm) = (draw(heads, 1.0), draw(shape.head_dim, 1.0));
        let mut rows =
            |width: usize, scale: f32| Positions::new(width, draw(SLOTS * TOKENS * width, scale));
        let (m, alpha) = (rows(shape.channels(), 1.0), rows(heads, 3.0));
        let (beta, z) = (rows(heads, 3.0), rows(shape.value_dim(), 3.0));
        Self { shape, taps, a, dt, norm, m, alpha, beta, z }
    }

    fn run<D: Gdn + Gemv>(
        &mut self,
        device: &mut D,
        windows: &[Window],
        vector: Vector<D>,
    ) -> Results {
        self.run_with(device, windows, vector, None)
    }

    /// The convolution's input is multiplied with `identity` before, if there is one.
    fn run_with<D: Gdn + Gemv>(
        &mut self,
        device: &mut D,
        windows: &[Window],
        vector: Vector<D>,
        identity: Option<&D::Matrix>,
    ) -> Results {
        let shape = self.shape;
        let mut state = device.new_gdn_state(&shape, SLOTS, DEFERRED).unwrap();
        let [taps, a, dt, norm] =
            [&self.taps, &self.a, &self.dt, &self.norm].map(|values| vector(device, values));
        let (channels, value_dim) = (shape.channels(), shape.value_dim());
        let (mut qkv, mut o) = (Positions::unknown(channels), Positions::unknown(value_dim));
        for window in windows {
            let rows = window.rows();
            let [m, alpha, beta, z] = [&mut self.m, &mut self.alpha, &mut self.beta, &mut self.z]
                .map(|values| upload(device, &values.rows(window)));
            let mut conv = upload(device, &vec![f32::NAN; rows * channels]);
            let mut product = upload(device, &vec![f32::NAN; rows * channels]);
            let mut out = upload(device, &vec![f32::NAN; rows * value_dim]);
            let fresh = match identity {
                Some(identity) if rows > 0 => {
                    device.matmul(identity, &m, rows, &mut product);
                    &product
                }
                _ => &m,
            };
            device.gdn_conv(&shape, &taps, window, &mut state, (fresh, &mut conv));
            let input = GdnInput { qkv: &conv, alpha: &alpha, beta: &beta, a: &a, dt: &dt };
            device.gdn_scan(&shape, window, input, &mut state, &mut out);
            device.gdn_output_gate(&shape, &norm, &z, rows, &mut out);
            qkv.set(window, &download(device, &conv, rows * channels));
            o.set(window, &download(device, &out, rows * value_dim));
        }
        let slots = (0..SLOTS).map(|slot| device.export_gdn(&state, slot)).collect();
        Results { qkv, o, slots }
    }
}

type Vector<D> = fn(&mut D, &[f32]) -> <D as Device>::Vector;

fn on_gpu(gpu: &mut gpu::Gpu, values: &[f32]) -> gpu::GpuBuffer {
    upload(gpu, values)
}

fn on_host(_: &mut Reference, values: &[f32]) -> Vec<f32> {
    values.to_vec()
}

/// The bits of everything that came out of slots 0 and 2.
fn all_bits(results: &mut Results) -> Vec<Vec<u32>> {
    let Results { qkv, o, slots } = results;
    let mut all = Vec::new();
    for slot in [0, 2] {
        all.extend([bits(qkv.slot(slot)), bits(o.slot(slot))]);
        all.extend([bits(&slots[slot].s), bits(&slots[slot].conv)]);
    }
    all
}

#[test]
fn the_layer_agrees_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    // The real width of heads; widths that no vector fits; one tap, which has no history; a history
    // that is longer than what may be set aside.
    let shapes = [
        shape((2, 6), 128, 4),
        shape((2, 6), 24, 1),
        shape((3, 3), 33, 2),
        shape((1, 2), 5, 19),
        shape((1, 1), 300, 4),
    ];
    for shape in shapes {
        let mut layer = Layer::new(shape);
        // The other ways have the same bits.
        for (name, windows) in scripts().iter().filter(|(name, _)| *name == "set aside") {
            let found = layer.run(&mut gpu, windows, on_gpu);
            let want = layer.run(&mut Reference, windows, on_host);
            let name = format!("{name}, {shape:?}");
            // Sums of some hundred f32 products, and an elementary function or two after each.
            let check = |what: &str, found: &[f32], want: &[f32]| {
                near(found, want, 1e-5).unwrap_or_else(|e| panic!("{what} of {name}: {e}"));
            };
            check("convolution", &found.qkv.values, &want.qkv.values);
            check("result", &found.o.values, &want.o.values);
            for (found, want) in found.slots.iter().zip(&want.slots) {
                check("state", &found.s, &want.s);
                assert_eq!(bits(&found.conv), bits(&want.conv), "history of {name}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_windows_company_or_replay() {
    let Some(mut gpu) = gpu() else { return };
    for shape in [shape((2, 4), 128, 4), shape((2, 4), 33, 3)] {
        let mut layer = Layer::new(shape);
        let mut expected: Option<Vec<Vec<u32>>> = None;
        for (name, windows) in scripts() {
            let found = all_bits(&mut layer.run(&mut gpu, &windows, on_gpu));
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "{name}, {shape:?}");
        }
    }
}

/// A product whose rows are convolved where they are made: kernels are fewer, bits the same.
#[test]
fn a_product_is_convolved_with_the_same_bits() {
    let Some(mut gpu) = gpu() else { return };
    for (shape, kernels) in [(shape((2, 4), 128, 4), 3), (shape((2, 4), 33, 3), 4)] {
        let channels = shape.channels();
        let one = |i: usize| f32::from(u8::from(i % channels == i / channels)).to_le_bytes();
        let bytes: Vec<u8> = (0..channels * channels).flat_map(one).collect();
        let of = WeightShape { n_in: channels, n_out: channels, experts: 1 };
        let identity = Weight::new("one", TensorType::F32, of, bytes.into()).unwrap();
        let identity = gpu.load_matrix(&identity, Activations::F32).unwrap();
        let mut layer = Layer::new(shape);
        for (name, windows) in scripts() {
            let want = all_bits(&mut layer.run(&mut gpu, &windows, on_gpu));
            let before = gpu.calls();
            let mut found = layer.run_with(&mut gpu, &windows, on_gpu, Some(&identity));
            assert!(all_bits(&mut found) == want, "{name}, {shape:?}");
            if name == "one by one" {
                // The product with the convolution, the scan, the gate; rows that are padded before.
                assert_eq!(gpu.calls() - before, kernels * windows.len() as u64, "{shape:?}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_slot() {
    let Some(mut gpu) = gpu() else { return };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let mut layer = Layer::new(shape((1, 2), 40, 4));
        for (_, windows) in scripts().into_iter().skip(4) {
            let clean = layer.run(&mut gpu, &windows, on_gpu);
            let old = layer.m.slot(2).to_vec();
            layer.m.slot(2).fill(bad);
            let mut dirty = layer.run(&mut gpu, &windows, on_gpu);
            layer.m.slot(2).copy_from_slice(&old);
            let (mut clean_o, dirty_o) = (clean.o, &mut dirty.o);
            assert_eq!(bits(clean_o.slot(0)), bits(dirty_o.slot(0)), "{bad}");
            assert_eq!(bits(&clean.slots[0].s), bits(&dirty.slots[0].s), "{bad}");
            // It shows where it is, and does not pass for zeros.
            let shows = dirty.o.slot(2).iter().any(|x| x.is_nan());
            assert!(shows || bad == f32::MAX, "{bad}");
        }
    }
}

#[test]
fn decay_is_exact_where_its_exponent_is_tiny() {
    let Some(mut gpu) = gpu() else { return };
    // Steps that forget next to nothing: a softplus that loses its small terms shows after many.
    let mut layer = Layer::new(shape((1, 1), 16, 2));
    layer.a.fill(-3e4);
    layer.alpha.values.fill(-18.0);
    layer.dt.fill(0.0);
    let windows = &scripts()[0].1;
    let found = layer.run(&mut gpu, windows, on_gpu);
    let want = layer.run(&mut Reference, windows, on_host);
    // As above.
    near(&found.slots[0].s, &want.slots[0].s, 1e-5).unwrap();
}

#[test]
fn states_travel_and_a_foreign_one_is_refused() {
    let Some(mut gpu) = gpu() else { return };
    let shape = shape((1, 2), 24, 4);
    let mut layer = Layer::new(shape);
    let mut results = layer.run(&mut gpu, &scripts()[3].1, on_gpu);
    let mut state = gpu.new_gdn_state(&shape, SLOTS, DEFERRED).unwrap();
    let from = results.slots.swap_remove(0);
    gpu.import_gdn(&mut state, 1, &from).unwrap();
    assert_eq!(gpu.export_gdn(&state, 1), from);
    let short = GdnSlot { s: from.s[1..].to_vec(), conv: from.conv.clone() };
    let long = GdnSlot { s: from.s.clone(), conv: [&from.conv[..], &[0.0]].concat() };
    for wrong in [short, long] {
        let error = gpu.import_gdn(&mut state, 1, &wrong).unwrap_err();
        assert!(matches!(error, Error::StateSize { .. }), "{error}");
    }
    assert_eq!(gpu.export_gdn(&state, 1), from);
    for other in [0, 2] {
        let GdnSlot { s, conv } = gpu.export_gdn(&state, other);
        assert!(s.iter().chain(&conv).all(|&x| x == 0.0), "slot {other}");
    }
    gpu.reset_gdn(&mut state, 1);
    assert!(gpu.export_gdn(&state, 1).s.iter().all(|&x| x == 0.0));
}
