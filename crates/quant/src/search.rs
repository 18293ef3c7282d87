//! Searches for the scales (and minima) that lose least when values are rounded to codes.
//!
//! All of them are weighted least squares tried from several starting factors. The order of the
//! f32 additions is that of the reference encoders, because the bytes written depend on it.

use crate::rounding::{round_even, signed_peak};

/// A group whose largest magnitude is below this is treated as all zero.
pub(crate) const NEGLIGIBLE: f32 = 1e-15;

/// Weights of values given their importance: `importance * sqrt(mean_square + x^2)`.
pub(crate) fn importance_weights<const N: usize>(
    x: &[f32; N],
    importance: &[f32],
    mean_square: f32,
) -> [f32; N] {
    let mut weights = [0.0; N];
    for ((weight, x), importance) in weights.iter_mut().zip(x).zip(importance) {
        *weight = importance * (mean_square + x * x).sqrt();
    }
    weights
}

/// A scale and codes such that `x` is about `scale * code`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleFit<const N: usize> {
    pub(crate) scale: f32,
    pub(crate) codes: [i8; N],
}

/// Tries each factor: codes are `nearest(factor * x)`, the scale is their least-squares one, and
/// the best-scoring pair wins. The first factor stands until it is beaten. `product` multiplies
/// weight, value and code in the order in which the format's encoder rounds them.
pub(crate) fn fit_scale<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    factors: impl Iterator<Item = f32>,
    nearest: impl Fn(f32) -> i8,
    product: impl Fn(f32, f32, f32) -> f32,
) -> ScaleFit<N> {
    let mut best = ScaleFit { scale: 0.0, codes: [0; N] };
    let mut best_score = 0.0;
    for (trial, factor) in factors.enumerate() {
        let codes = x.map(|x| nearest(factor * x));
        let (mut xq, mut qq) = (0.0, 0.0);
        for ((x, w), code) in x.iter().zip(weights).zip(&codes) {
            let q = f32::from(*code);
            xq += product(*w, *x, q);
            qq += w * q * q;
        }
        if trial == 0 || (qq > 0.0 && xq * xq > best_score * qq) {
            let scale = if qq > 0.0 { xq / qq } else { 0.0 };
            best = ScaleFit { scale, codes };
            best_score = scale * xq;
        }
    }
    best
}

/// [`fit_scale`] for the integer codes `-limit..limit`, from the factors that bring the largest
/// element to about `-limit`.
pub(crate) fn fit_symmetric<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    limit: i8,
) -> ScaleFit<N> {
    let peak = signed_peak(x);
    if peak.abs() < NEGLIGIBLE {
        return ScaleFit { scale: 0.0, codes: [-limit; N] };
    }
    let range = f32::from(limit);
    let steps = (-9..=9).filter(|k| *k != 0).map(|k| range + 0.1 * k as f32);
    let factors = std::iter::once(range).chain(steps).map(|range| -range / peak);
    let (lowest, highest) = (-i32::from(limit), i32::from(limit) - 1);
    let nearest = |scaled: f32| round_even(scaled).clamp(lowest, highest) as i8;
    fit_scale(x, weights, factors, nearest, |w, x, q| w * x * q)
}

/// A scale, a minimum (not above 0) and codes such that `x` is about `scale * code + min`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AffineFit<const N: usize> {
    pub(crate) scale: f32,
    pub(crate) min: f32,
    pub(crate) codes: [u8; N],
}

/// The factors that [`fit_affine`] tries: `(max_code + start + k * step) / range` for k up to and
/// with `last`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) start: f32,
    pub(crate) step: f32,
    pub(crate) last: i32,
}

/// The steps of all encoders that know the importance of values.
pub(crate) const IMPORTANCE_STEPS: Steps = Steps { start: -0.9, step: 0.05, last: 36 };

/// Weighted least squares for scale and minimum with codes `0..=max_code`.
pub(crate) fn fit_affine<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    max_code: u8,
    steps: Steps,
) -> AffineFit<N> {
    let (min, max) = x[1..].iter().fold((x[0], x[0]), |(min, max), &x| {
        (if x < min { x } else { min }, if x > max { x } else { max })
    });
    let min = if min > 0.0 { 0.0 } else { min };
    if max <= min {
        return AffineFit { scale: 0.0, min, codes: [0; N] };
    }
    let quantise = |factor: f32, min: f32| {
        x.map(|x| round_even(factor * (x - min)).clamp(0, i32::from(max_code)) as u8)
    };
    let factor = f32::from(max_code) / (max - min);
    let mut best = AffineFit { scale: 1.0 / factor, min, codes: quantise(factor, min) };
    let mut best_error = weighted_error(x, weights, &best);
    for k in 0..=steps.last {
        let range = steps.start + steps.step * k as f32 + f32::from(max_code);
        // The best minimum so far enters here, not the original one.
        let codes = quantise(range / (max - best.min), best.min);
        let Some(trial) = solve_affine(x, weights, codes) else { continue };
        let error = weighted_error(x, weights, &trial);
        if error < best_error {
            (best, best_error) = (trial, error);
        }
    }
    best
}

/// The best scale and minimum for given codes; `None` where the codes do not determine them.
fn solve_affine<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    codes: [u8; N],
) -> Option<AffineFit<N>> {
    let (mut sum_w, mut sum_x, mut sum_q, mut sum_qq, mut sum_xq) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((x, w), code) in x.iter().zip(weights).zip(&codes) {
        let q = f32::from(*code);
        sum_w += w;
        sum_x += w * x;
        sum_q += w * q;
        sum_qq += w * q * q;
        sum_xq += w * q * x;
    }
    let determinant = sum_w * sum_qq - sum_q * sum_q;
    if determinant <= 0.0 || determinant.is_nan() {
        return None;
    }
    let mut scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
    let mut min = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
    if min > 0.0 {
        (scale, min) = (sum_xq / sum_qq, 0.0);
    }
    Some(AffineFit { scale, min, codes })
}

fn weighted_error<const N: usize>(x: &[f32; N], weights: &[f32; N], fit: &AffineFit<N>) -> f32 {
    let mut error = 0.0;
    for ((x, w), code) in x.iter().zip(weights).zip(&fit.codes) {
        let difference = fit.scale * f32::from(*code) + fit.min - x;
        error += w * (difference * difference);
    }
    error
}

/// A unit and codes `0..=max_code` such that `x` (not negative) is about `unit * code`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositiveFit<const N: usize> {
    pub(crate) unit: f32,
    pub(crate) codes: [u8; N],
}

/// Nine starting factors by weighted error, then single codes are moved while that helps.
pub(crate) fn fit_positive<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    max_code: u8,
) -> PositiveFit<N> {
    const ROUNDS: usize = 5;
    let max = x.iter().fold(0.0, |max, &x| if x > max { x } else { max });
    if max < NEGLIGIBLE {
        return PositiveFit { unit: 0.0, codes: [0; N] };
    }
    let quantise = |scaled: f32| round_even(scaled).clamp(0, i32::from(max_code)) as u8;
    let factor = best_factor(x, weights, f32::from(max_code) / max, max, max_code);
    let mut codes = x.map(|x| quantise(factor * x));
    let (mut xq, mut qq) = (0.0, 0.0);
    for ((x, w), code) in x.iter().zip(weights).zip(&codes) {
        let q = f32::from(*code);
        xq += w * x * q;
        qq += w * q * q;
    }
    for _ in 0..ROUNDS {
        let mut changed = false;
        for ((&x, &w), code) in x.iter().zip(weights).zip(&mut codes) {
            let old = f32::from(*code);
            let (rest_xq, rest_qq) = (xq - w * x * old, qq - w * old * old);
            if rest_xq <= 0.0 || rest_qq <= 0.0 {
                continue;
            }
            let moved = quantise(x * rest_qq / rest_xq);
            let q = f32::from(moved);
            let (new_xq, new_qq) = (rest_xq + w * x * q, rest_qq + w * q * q);
            if moved != *code && new_xq * new_xq * qq > xq * xq * new_qq {
                (*code, xq, qq, changed) = (moved, new_xq, new_qq, true);
            }
        }
        if !changed {
            break;
        }
    }
    PositiveFit { unit: if qq > 0.0 { xq / qq } else { 0.0 }, codes }
}

/// The factor near `first` whose rounding loses least.
fn best_factor<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    first: f32,
    max: f32,
    max_code: u8,
) -> f32 {
    let error = |factor: f32| {
        let unit = 1.0 / factor;
        let mut sum = 0.0;
        for (x, w) in x.iter().zip(weights) {
            let code = round_even(factor * x).min(i32::from(max_code));
            let difference = x - unit * code as f32;
            sum += w * difference * difference;
        }
        sum
    };
    let (mut best, mut best_error) = (first, error(first));
    for k in (-4..=4).filter(|k| *k != 0) {
        let factor = (0.1 * k as f32 + f32::from(max_code)) / max;
        let trial = error(factor);
        if trial < best_error {
            (best, best_error) = (factor, trial);
        }
    }
    best
}
