//! Accuracy of the elementary functions, and that values do not depend on their company.

use super::elementwise::{Map, Sigmoid, Silu};
use super::math::exp;
use super::*;
use kernels::KvType;
use kernels::host::KvRows;

/// `e^old`.
#[derive(Clone, Copy)]
struct Exp;

impl Map<0> for Exp {
    #[inline(always)]
    unsafe fn at<L: MathLanes>(self, old: L::V, _: [L::V; 0]) -> L::V {
        // SAFETY: passed on from the caller.
        unsafe { exp::<L>(old) }
    }
}

const SIGMOID: Sigmoid = Sigmoid { factor: 1.0, scale: 1.0 };
const SILU: Silu = Silu { scale: 1.0 };

fn every_isa() -> impl Iterator<Item = Kernels> {
    Isa::available().into_iter().map(Kernels::new)
}

/// Repeatable values in [-scale, scale).
fn values(len: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * scale
    };
    (0..len).map(|_| next()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Error of `found` in units in the last place of f32 at `exact`.
fn ulps(found: f32, exact: f64) -> f64 {
    // Past the largest value rounding gives infinity, as if the exponents went on.
    let found = if found == f32::INFINITY { 2f64.powi(128) } else { f64::from(found) };
    let exact = exact.clamp(-(2f64.powi(128)), 2f64.powi(128));
    let exponent = (exact.abs().log2().floor() as i32).clamp(-126, 127);
    (found - exact).abs() / 2f64.powi(exponent - 23)
}

/// The largest error of a function over every `step`-th f32 from `from` on.
fn worst<M: Map<0>>(
    simd: &Kernels,
    step: usize,
    map: M,
    from: f32,
    exact: impl Fn(f64) -> f64,
) -> (f64, f32) {
    const CHUNK: usize = 4096;
    let mut worst = (0.0, 0.0);
    let all = (0..=u32::MAX).step_by(step).map(f32::from_bits).filter(|x| *x >= from);
    let mut all = all.peekable();
    while all.peek().is_some() {
        let x: Vec<f32> = all.by_ref().take(CHUNK).collect();
        let mut y = x.clone();
        simd.map(map, [], &mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert!(!y.is_nan(), "{x}: {y}");
            let error = ulps(y, exact(f64::from(x)));
            worst = if error > worst.0 { (error, x) } else { worst };
        }
    }
    worst
}

fn check_accuracy(step: usize) {
    for simd in every_isa() {
        let name = simd.isa.name();
        let (error, at) = worst(&simd, step, Exp, f32::MIN, f64::exp);
        println!("{name}: exp {error} at {at}");
        assert!(error <= 1.1, "{name}: exp({at}) is off by {error}");
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (error, at) = worst(&simd, step, SIGMOID, -87.0, sigmoid);
        println!("{name}: sigmoid {error} at {at}");
        assert!(error <= 2.5, "{name}: sigmoid({at}) is off by {error}");
        let (error, at) = worst(&simd, step, SILU, -87.0, |x| x * sigmoid(x));
        println!("{name}: silu {error} at {at}");
        assert!(error <= 2.5, "{name}: silu({at}) is off by {error}");
    }
}

#[test]
fn accuracy_over_the_whole_range() {
    // A prime step reaches all exponents and all kinds of mantissas.
    let slow = std::env::var_os("TUFF_SLOW_EMULATION").is_some();
    check_accuracy(if slow { 65_537 } else { 4099 });
}

#[test]
#[ignore = "takes a minute; gives the figures in the documentation of `math`"]
fn accuracy_over_seventy_million_values() {
    check_accuracy(61);
}

#[test]
fn ends_of_the_range() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for simd in every_isa() {
        let apply = |x: f32| {
            let mut y = [[x]; 3];
            simd.map(Exp, [], &mut y[0]);
            simd.map(SIGMOID, [], &mut y[1]);
            simd.map(SILU, [], &mut y[2]);
            y.map(|[y]| y)
        };
        assert_eq!(apply(0.0), [1.0, 0.5, 0.0]);
        assert_eq!(apply(inf), [inf, 1.0, inf]);
        assert_eq!(apply(-inf)[..2], [0.0, 0.0]);
        assert!(apply(nan).iter().all(|y| y.is_nan()) && apply(-inf)[2].is_nan());
        assert_eq!(apply(88.73)[0], inf);
        assert!(apply(88.72)[0].is_finite());
        assert_eq!(apply(f32::MAX), [inf, 1.0, f32::MAX]);
        assert_eq!(apply(f32::MIN), [0.0, 0.0, 0.0]);
        // Gradual underflow: the smallest values are there, and nothing below them.
        assert_eq!(apply(-103.2)[0], f32::from_bits(1));
        assert_eq!(apply(-104.0)[0], 0.0);
        assert_eq!(apply(-89.0)[1..], [0.0, 0.0]);
    }
}

#[test]
fn a_value_s_place_does_not_matter() {
    let mut x = values(70, 30.0);
    x.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, 88.0, -100.0]);
    let y = values(x.len(), 2.0);
    for simd in every_isa() {
        let swiglu = |range: std::ops::Range<usize>| {
            let mut out = x[range.clone()].to_vec();
            simd.map(elementwise::SwiGlu {}, [&y[range]], &mut out);
            bits(&out)
        };
        let alone: Vec<u32> = (0..x.len()).flat_map(|i| swiglu(i..i + 1)).collect();
        for start in 0..x.len() {
            for end in start..=x.len() {
                assert_eq!(swiglu(start..end), alone[start..end], "{}", simd.isa.name());
            }
        }
    }
}

#[test]
fn softmax_of_any_length() {
    for simd in every_isa() {
        for len in 1..100 {
            let x = values(len, 20.0);
            let mut y = x.clone();
            simd.run(Softmax(&mut y));
            let largest = x.iter().copied().fold(f32::MIN, f32::max);
            let e: Vec<f64> = x.iter().map(|x| f64::from(x - largest).exp()).collect();
            let sum: f64 = e.iter().sum();
            for (y, e) in y.iter().zip(&e) {
                // The function's error, a sum of positive values in at most 25 steps, two
                // roundings.
                assert!(ulps(*y, e / sum) < 16.0, "{len}: {y} for {}", e / sum);
            }
        }
        for bad in [f32::NAN, f32::INFINITY] {
            for at in 0..40 {
                let mut y = values(40, 1.0);
                y[at] = bad;
                simd.run(Softmax(&mut y));
                assert!(y.iter().all(|y| y.is_nan()), "{bad} at {at}");
            }
        }
        let mut y = [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY];
        simd.run(Softmax(&mut y));
        assert_eq!(y, [0.0, 1.0, 0.0]);
        simd.run(Softmax(&mut []));
    }
}

#[test]
fn taps_are_transposed_for_any_number_of_channels() {
    for simd in every_isa() {
        for kernel in [1, 2, 3, 4, 5] {
            for channels in [1, 7, 8, 16, 31, 64, 100] {
                let taps = values(channels * kernel, 1.0);
                let mut out = vec![0.0; taps.len()];
                simd.transpose_taps(&taps, kernel, &mut out);
                for (i, tap) in taps.iter().enumerate() {
                    assert_eq!(*tap, out[i % kernel * channels + i / kernel]);
                }
            }
        }
    }
}

/// Runs the delta rule over `tokens` in pieces of `piece` tokens; outputs and final state.
fn delta(simd: &Kernels, (dim, width): (usize, usize), tokens: usize, piece: usize) -> Vec<u32> {
    let (q, k) = (values(tokens * dim, 0.3), values(tokens * dim + 5, 0.4)[5..].to_vec());
    let v = values(tokens * width, 1.0);
    let gate = |x: &f32| DeltaGate { decay: 0.5 + x.abs(), beta: 0.5 - x };
    let gates: Vec<DeltaGate> = values(tokens, 0.4).iter().map(gate).collect();
    let mut s = values(dim * width, 0.5);
    let mut o = vec![0.0; tokens * width];
    for first in (0..tokens).step_by(piece) {
        let (from, to) = (first, tokens.min(first + piece));
        simd.run(DeltaRun {
            commit: to - from,
            s: &mut s,
            dim,
            q: &q[from * dim..to * dim],
            k: &k[from * dim..to * dim],
            v: &v[from * width..to * width],
            gates: &gates[from..to],
            o: &mut o[from * width..to * width],
            work: &mut vec![f32::NAN; dim * DELTA_WORK],
        });
    }
    o.extend(s);
    assert!(o.iter().all(|x| x.is_finite()));
    bits(&o)
}

#[test]
fn delta_rule_in_any_pieces() {
    for simd in every_isa() {
        for size in [(1, 1), (3, 5), (24, 24), (17, 33), (64, 65), (40, 127), (128, 128)] {
            let one_by_one = delta(&simd, size, 21, 1);
            for piece in [2, 3, 5, 20, 21] {
                assert_eq!(delta(&simd, size, 21, piece), one_by_one, "{size:?} by {piece}");
            }
        }
    }
}

/// Rows of a cache, of which a head of `dim` values is used.
struct Cache {
    rows: KvRows,
    stride: usize,
    first: usize,
    dim: usize,
}

impl Cache {
    fn new(ty: KvType, dim: usize) -> Self {
        let (stride, first) = if ty == KvType::Q8_0 { (dim + 64, 32) } else { (dim + 9, 4) };
        let mut rows = KvRows::new(ty, stride);
        rows.append(&values(60 * stride, 1.0));
        Self { rows, stride, first, dim }
    }

    /// The same values in f32.
    fn decoded(&self) -> Self {
        let mut rows = KvRows::new(KvType::F32, self.stride);
        rows.append(&self.rows.decode());
        Self { rows, ..*self }
    }
}

/// Attention of heads `heads` of 4, with the positions in pieces.
fn attend(simd: &Kernels, cache: &Cache, heads: std::ops::Range<usize>, piece: usize) -> Vec<u32> {
    let positions: Vec<u32> = (0..37).map(|i| i * 3 / 2).collect();
    let &Cache { ref rows, stride, first, dim } = cache;
    let q = values(4 * dim, 1.0);
    let count = positions.len();
    let mut scores = vec![f32::NAN; heads.len() * count];
    let mut o = vec![0.0; heads.len() * dim];
    let (bytes, ty) = (rows.bytes(), rows.ty());
    let (row_bytes, first_byte) = (ty.bytes(stride), ty.bytes(first));
    let cached = |positions| Cached { rows: bytes, row_bytes, first_byte, ty, dim, positions };
    for (i, chunk) in positions.chunks(piece).enumerate() {
        simd.run(Scores {
            q: &q[heads.start * dim..heads.end * dim],
            keys: cached(chunk),
            scale: 0.5,
            scores: &mut scores[i * piece..],
            scores_stride: count,
        });
    }
    for (i, chunk) in positions.chunks(piece).enumerate() {
        simd.run(AddValues {
            weights: &scores[i * piece..],
            weights_stride: count,
            values: cached(chunk),
            o: &mut o,
        });
    }
    let exact = |p: u32| {
        let key = &rows.rows(p as usize..p as usize + 1)[first..][..dim];
        let products = key.iter().zip(&q[heads.start * dim..]);
        0.5 * products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
    };
    for (score, &p) in scores.iter().zip(&positions) {
        assert!((f64::from(*score) - exact(p)).abs() < 1e-4, "{score} for {}", exact(p));
    }
    bits(&[scores, o].concat())
}

#[test]
fn attention_in_any_pieces_and_with_any_heads() {
    for simd in every_isa() {
        let float = |ty| [1, 8, 24, 37, 64, 96].map(|dim| (ty, dim));
        let cases = [float(KvType::F32), float(KvType::F16)].concat();
        for (ty, dim) in cases.into_iter().chain([32, 64, 96].map(|dim| (KvType::Q8_0, dim))) {
            let cache = Cache::new(ty, dim);
            let whole = attend(&simd, &cache, 0..4, 37);
            assert_eq!(attend(&simd, &cache.decoded(), 0..4, 37), whole, "{ty} {dim}");
            for piece in [1, 3, 4, 16] {
                assert_eq!(attend(&simd, &cache, 0..4, piece), whole, "{ty} {dim}, {piece}");
            }
            for heads in [0..1, 1..3, 1..4, 3..4] {
                let part = attend(&simd, &cache, heads.clone(), 37);
                let (scores, o) = part.split_at(heads.len() * 37);
                assert_eq!(scores, &whole[heads.start * 37..heads.end * 37]);
                let all = 4 * 37;
                assert_eq!(o, &whole[all + heads.start * dim..all + heads.end * dim]);
            }
        }
    }
}
