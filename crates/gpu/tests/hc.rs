//! Hyper-connections against the reference, and the same bits in every window.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::script::near;
use common::*;
use gguf::TensorType;
use kernels::hc::HcRead;
use kernels::reference::Reference;
use kernels::weight::WeightShape;
use kernels::{Activations, Device, Hc, HcShape, HcWeights, Weight};
use lab::Random;

/// A layer's sizes and formats.
#[derive(Clone, Copy, Debug)]
struct Case {
    streams: usize,
    width: usize,
    rank: usize,
    down: TensorType,
    up: TensorType,
    inject: Option<TensorType>,
}

const REAL: Case = Case {
    streams: 4,
    width: 2560,
    rank: 320,
    down: TensorType::Q8_0,
    up: TensorType::Q8_0,
    inject: Some(TensorType::F32),
};

/// Streams of whole units.
const SPLIT: Case =
    Case { width: 96, rank: 70, down: TensorType::F32, up: TensorType::F32, ..REAL };

/// The others.
const ODD: Case = Case { streams: 3, width: 45, rank: 37, ..SPLIT };

/// Values that leave gates where they have a slope, in any format.
fn matrix(ty: TensorType, n_in: usize, n_out: usize, seed: u64) -> Weight {
    let shape = WeightShape { n_in, n_out, experts: 1 };
    let mut random = Random::new(seed);
    let scale = 3.0 / (n_in as f32).sqrt();
    let bytes: Vec<u8> = match ty {
        TensorType::F32 => {
            let values = random.values(n_in * n_out, scale);
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        TensorType::BF16 => {
            let values = random.values(n_in * n_out, scale);
            values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        TensorType::Q8_0 => {
            let mut block = || {
                let mut bytes = [0; 34];
                random.fill(&mut bytes);
                // 2^-12 and 2^-11.
                (bytes[0], bytes[1]) = (0, 0x0c + 4 * (bytes[0] & 1));
                bytes
            };
            (0..n_in * n_out / 32).flat_map(|_| block()).collect()
        }
        _ => return weight(ty, "rand", shape),
    };
    Weight::new(ty.name(), ty, shape, bytes.into()).unwrap()
}

impl Case {
    fn wide(&self) -> usize {
        self.streams * self.width
    }

    fn shape(&self) -> HcShape {
        HcShape { streams: self.streams, width: self.width, eps: 1e-6 }
    }

    fn x(&self, rows: usize) -> Vec<f32> {
        Random::new(2).values(rows * self.wide(), 3.0)
    }
}

/// A layer on a device.
struct Layer<'a, D: Device> {
    case: Case,
    norm: &'a D::Vector,
    down: D::Matrix,
    up: D::Matrix,
    inject: Option<D::Matrix>,
}

impl<'a, D: Hc> Layer<'a, D> {
    fn new(device: &mut D, case: Case, norm: &'a D::Vector) -> Self {
        let (wide, rank) = (case.wide(), case.rank);
        let mut load = |ty, n_in, n_out, seed| {
            device.load_matrix(&matrix(ty, n_in, n_out, seed), Activations::F32).unwrap()
        };
        let (down, up) = (load(case.down, wide, rank, 11), load(case.up, rank, wide, 12));
        let inject = case.inject.map(|ty| load(ty, wide, case.streams, 13));
        Self { case, norm, down, up, inject }
    }

    /// The mix and the write weights of rows of streams.
    fn read(&self, device: &mut D, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let Case { streams, width, .. } = self.case;
        let Self { norm, down, up, inject, .. } = self;
        let norm: &D::Vector = norm;
        let rows = x.len() / self.case.wide();
        let x = upload(device, x);
        let mut u = upload(device, &vec![f32::NAN; rows * width]);
        let mut weights = upload(device, &vec![-7.0; rows * streams]);
        let w = HcWeights { norm, down, up, inject: inject.as_ref() };
        let out = HcRead { u: &mut u, weights: &mut weights };
        device.hc_read(&self.case.shape(), &w, &x, rows, out);
        (download(device, &u, rows * width), download(device, &weights, rows * streams))
    }
}

fn norm(case: Case) -> Vec<f32> {
    Random::new(1).values(case.wide(), 2.0)
}

fn agrees(gpu: &mut gpu::Gpu, case: Case, windows: &[usize]) {
    let norm = norm(case);
    let on_gpu = upload(gpu, &norm);
    let found = Layer::new(gpu, case, &on_gpu);
    let want = Layer::new(&mut Reference, case, &norm);
    for &rows in windows {
        let x = case.x(rows);
        let (u, weights) = found.read(gpu, &x);
        let (want_u, want_weights) = want.read(&mut Reference, &x);
        // Two products in a row, in f32: sums of up to 10240 terms, which grow as their root.
        let check = |what: &str, found: &[f32], want: &[f32]| {
            near(found, want, 1e-5).unwrap_or_else(|e| panic!("{what}, {rows} of {case:?}: {e}"));
        };
        check("u", &u, &want_u);
        check("weights", &weights, &want_weights);
    }
}

#[test]
fn a_read_agrees_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    // The other windows have the same bits.
    agrees(&mut gpu, SPLIT, &[1, 6, 70]);
    agrees(&mut gpu, ODD, &[1, 6, 70]);
    agrees(&mut gpu, Case { streams: 1, width: 32, rank: 1, ..SPLIT }, &[6]);
    agrees(&mut gpu, Case { streams: 7, width: 64, rank: 33, ..SPLIT }, &[6]);
    agrees(&mut gpu, Case { width: 1, rank: 2, ..ODD }, &[3]);
}

#[test]
fn a_read_of_the_real_size_agrees_with_the_reference() {
    let Some(mut gpu) = gpu() else { return };
    agrees(&mut gpu, REAL, &[1, 3]);
}

#[test]
fn every_kind_of_format_reads() {
    let Some(mut gpu) = gpu() else { return };
    use TensorType as T;
    for (ty, up, inject) in [
        (T::BF16, T::BF16, T::BF16),
        (T::Q8_0, T::F32, T::Q8_0),
        (T::IQ4_NL, T::IQ4_NL, T::F32),
        (T::Q4_1, T::Q5_1, T::F32),
    ] {
        let case = Case { rank: 64, down: ty, up, inject: Some(inject), ..SPLIT };
        agrees(&mut gpu, case, &[4]);
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_window() {
    let Some(mut gpu) = gpu() else { return };
    let coded = Case { rank: 64, down: TensorType::Q8_0, up: TensorType::Q8_0, ..SPLIT };
    // More units than lanes, and stages that end within a stream.
    let long = Case { streams: 2, width: 32 * 83, rank: 320, inject: None, ..coded };
    let some = [4, 13, 39];
    for (case, all, windows) in [
        (SPLIT, 78, &[1, 2, 3, 5, 39][..]),
        (coded, 78, &some),
        (long, 34, &some[..2]),
        (ODD, 78, &some),
        (Case { streams: 1, ..coded }, 34, &some[..1]),
        (REAL, 33, &[1, 2, 3, 4]),
    ] {
        let on_gpu = upload(&mut gpu, &norm(case));
        let layer = Layer::new(&mut gpu, case, &on_gpu);
        let x = case.x(all);
        let (u, weights) = layer.read(&mut gpu, &x);
        for &rows in windows {
            let parts = x.chunks(rows * case.wide()).map(|x| layer.read(&mut gpu, x));
            let (part_u, part_weights): (Vec<_>, Vec<_>) = parts.unzip();
            assert!(bits(&part_u.concat()) == bits(&u), "u by {rows}: {case:?}");
            assert!(bits(&part_weights.concat()) == bits(&weights), "by {rows}: {case:?}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_row() {
    let Some(mut gpu) = gpu() else { return };
    for case in [SPLIT, ODD] {
        let on_gpu = upload(&mut gpu, &norm(case));
        let layer = Layer::new(&mut gpu, case, &on_gpu);
        for rows in [4, 40] {
            let (clean, weights) = layer.read(&mut gpu, &case.x(rows));
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = case.x(rows);
                x[case.wide() + 7 % case.width] = bad;
                let (u, dirty_weights) = layer.read(&mut gpu, &x);
                let (width, streams) = (case.width, case.streams);
                for row in (0..rows).filter(|&row| row != 1) {
                    let at = row * width..(row + 1) * width;
                    assert_eq!(bits(&u[at.clone()]), bits(&clean[at]), "{bad}, {case:?}");
                    let at = row * streams..(row + 1) * streams;
                    assert_eq!(bits(&dirty_weights[at.clone()]), bits(&weights[at]), "{bad}");
                }
                assert!(u[width..2 * width].iter().any(|x| x.is_nan()), "{bad}, {case:?}");
            }
        }
    }
}

#[test]
fn fault_117_overflow_in_a_norm_is_not_hidden_as_zeros() {
    let Some(mut gpu) = gpu() else { return };
    let on_gpu = upload(&mut gpu, &[1.0; 4 * 96]);
    let layer = Layer::new(&mut gpu, SPLIT, &on_gpu);
    // Finite, but its square is not.
    let (u, _) = layer.read(&mut gpu, &[1e30; 4 * 96]);
    assert!(u.iter().all(|u| u.is_nan()), "{:?}", &u[..4]);
}

#[test]
fn without_an_inject_matrix_the_weights_are_untouched() {
    let Some(mut gpu) = gpu() else { return };
    for case in [SPLIT, ODD] {
        let case = Case { inject: None, ..case };
        for rows in [4, 35] {
            agrees(&mut gpu, case, &[rows]);
            let on_gpu = upload(&mut gpu, &norm(case));
            let (_, weights) = Layer::new(&mut gpu, case, &on_gpu).read(&mut gpu, &case.x(rows));
            assert!(weights.iter().all(|&w| w == -7.0), "{weights:?}");
        }
    }
}

#[test]
fn injection_agrees_with_the_reference_and_leaves_other_rows() {
    let Some(mut gpu) = gpu() else { return };
    for case in [SPLIT, ODD] {
        let (rows, shape) = (5, case.shape());
        let x = case.x(rows + 1);
        let weights = Random::new(4).values(rows * case.streams, 2.0);
        let y = Random::new(3).values(rows * case.width, 1.0);
        let (mut on_gpu, w, added) =
            (upload(&mut gpu, &x), upload(&mut gpu, &weights), upload(&mut gpu, &y));
        gpu.hc_inject(&shape, &w, &added, rows, &mut on_gpu);
        let found = download(&mut gpu, &on_gpu, x.len());
        let mut want = x;
        Reference.hc_inject(&shape, &weights, &y, rows, &mut want);
        // One fused step in place of two roundings.
        near(&found, &want, 1e-6).unwrap();
        let kept = rows * case.wide();
        assert_eq!(bits(&found[kept..]), bits(&want[kept..]));
    }
}
