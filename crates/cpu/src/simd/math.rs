//! Elementary functions over vectors.
//!
//! A value's result depends on the value alone, not on its place in a slice or the slice's length:
//! what fills no vector is padded and goes through the same code.
//!
//! Errors as measured with every x86 instruction set on every 61st f32, against f64: `exp` 1.01,
//! `sigmoid` 2.37 and `silu` 2.27 units in the last place. The tests allow what the functions say.

use super::dispatch::Loop;
use super::math_lanes::{MAX_WIDTH, MathLanes};

/// `e^x`, within 1.1 units in the last place; gradual underflow, infinity from 88.73 on.
///
/// With `n` the whole number nearest to `x / ln 2` and `r = x - n ln 2`:
/// `e^x = 2^n (1 + r + r^2 q(r))`. The polynomial `q` has the least relative error of `e^r` that
/// its degree allows, 3.1e-9.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn exp<L: MathLanes>(x: L::V) -> L::V {
    const Q: [f32; 5] = [0.001_381_454, 0.008_368_745, 0.041_668_39, 0.166_665_21, 0.499_999_94];
    /// Added and taken away again, it rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    /// `ln 2` in two parts; the first has 15 bits, so that its product with `n` is exact.
    const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
    // SAFETY: passed on from the caller.
    unsafe {
        // Beyond these the result is zero or infinity anyway.
        let x = L::min(L::splat(89.0), L::max(L::splat(-104.0), x));
        let round = L::splat(ROUND);
        let n = L::sub(L::fma(x, L::splat(std::f32::consts::LOG2_E), round), round);
        let minus_n = L::sub(L::splat(0.0), n);
        let r = L::fma(minus_n, L::splat(LN_2[1]), L::fma(minus_n, L::splat(LN_2[0]), x));
        let mut q = L::splat(Q[0]);
        for &factor in &Q[1..] {
            q = L::fma(q, r, L::splat(factor));
        }
        let power = L::add(L::splat(1.0), L::fma(L::mul(r, r), q, r));
        L::scale(power, n)
    }
}

/// `1 / (1 + e^-x)`, within 2.5 units in the last place from -87 on; zero below -88.73.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn sigmoid<L: MathLanes>(x: L::V) -> L::V {
    // SAFETY: passed on from the caller.
    unsafe { L::div(L::splat(1.0), one_and_exp::<L>(x)) }
}

/// `x / (1 + e^-x)`, within 2.5 units in the last place from -87 on; zero below -88.73, and NaN for
/// negative infinity.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn silu<L: MathLanes>(x: L::V) -> L::V {
    // SAFETY: passed on from the caller.
    unsafe { L::div(x, one_and_exp::<L>(x)) }
}

/// `1 + e^-x`.
#[inline(always)]
unsafe fn one_and_exp<L: MathLanes>(x: L::V) -> L::V {
    // SAFETY: passed on from the caller.
    unsafe { L::add(L::splat(1.0), exp::<L>(L::sub(L::splat(0.0), x))) }
}

/// The values of `part`, shorter than a vector, and `fill` behind them.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn load_part<L: MathLanes>(part: &[f32], fill: f32) -> L::V {
    let mut padded = [fill; MAX_WIDTH];
    padded[..part.len()].copy_from_slice(part);
    // SAFETY: `padded` has at least a vector of values.
    unsafe { L::load(padded.as_ptr()) }
}

/// The first values of `v`, as many as `part` has, which is shorter than a vector.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn store_part<L: MathLanes>(part: &mut [f32], v: L::V) {
    let mut padded = [0.0; MAX_WIDTH];
    // SAFETY: `padded` has at least a vector of values.
    unsafe { L::store(padded.as_mut_ptr(), v) };
    part.copy_from_slice(&padded[..part.len()]);
}

/// Makes values their softmax: `e^(x - max) / sum`. All NaN if a value is NaN or positive infinity,
/// or all are negative infinity.
#[derive(Debug)]
pub(crate) struct Softmax<'a>(pub(crate) &'a mut [f32]);

impl Loop for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(self) {
        // SAFETY: passed on from the caller.
        unsafe { softmax::<L>(self.0) }
    }
}

/// See [`Softmax`]; the sum's order depends on the number of values alone.
///
/// # Safety
/// The instruction set of `L` must be enabled in the caller.
#[inline(always)]
pub(crate) unsafe fn softmax<L: MathLanes>(values: &mut [f32]) {
    let whole = values.len() - values.len() % L::WIDTH;
    let (vectors, rest) = values.split_at_mut(whole);
    // SAFETY: passed on from the caller; a vector is `WIDTH` values of `vectors`.
    unsafe {
        // Nothing weighs what the padding does.
        let padding = f32::NEG_INFINITY;
        let mut largest = load_part::<L>(rest, padding);
        for x in vectors.chunks_exact(L::WIDTH) {
            largest = L::max(largest, L::load(x.as_ptr()));
        }
        let mut lanes = [padding; MAX_WIDTH];
        L::store(lanes.as_mut_ptr(), largest);
        // A NaN that was passed over here makes the sum NaN below.
        let largest = L::splat(lanes.iter().copied().fold(padding, f32::max));

        let mut sum = L::splat(0.0);
        for x in vectors.chunks_exact_mut(L::WIDTH) {
            let e = exp::<L>(L::sub(L::load(x.as_ptr()), largest));
            L::store(x.as_mut_ptr(), e);
            sum = L::add(sum, e);
        }
        let e = exp::<L>(L::sub(load_part::<L>(rest, padding), largest));
        let factor = L::splat(1.0 / L::sum(L::add(sum, e)));
        for x in vectors.chunks_exact_mut(L::WIDTH) {
            L::store(x.as_mut_ptr(), L::mul(L::load(x.as_ptr()), factor));
        }
        store_part::<L>(rest, L::mul(e, factor));
    }
}
