//! Operations that take values of the same place in several slices to one value of that place.

use super::Kernels;
use super::dispatch::Loop;
use super::math::{load_part, sigmoid, silu, store_part};
use super::math_lanes::MathLanes;

/// A function of the old value and N others.
pub(crate) trait Map<const N: usize>: Copy {
    /// The new value. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The instruction set of `L` must be enabled in the caller.
    unsafe fn at<L: MathLanes>(self, old: L::V, x: [L::V; N]) -> L::V;
}

struct Elementwise<'a, M, const N: usize> {
    map: M,
    x: [&'a [f32]; N],
    out: &'a mut [f32],
}

impl<M: Map<N>, const N: usize> Loop for Elementwise<'_, M, N> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(self) {
        let Self { map, x, out } = self;
        let n = out.len();
        for x in x {
            assert_eq!(x.len(), n);
        }
        // SAFETY: every index below `n` is in bounds of all slices.
        unsafe {
            let mut i = 0;
            while i + L::WIDTH <= n {
                let mut values = [L::splat(0.0); N];
                for (value, x) in values.iter_mut().zip(x) {
                    *value = L::load(x.as_ptr().add(i));
                }
                let old = L::load(out.as_ptr().add(i));
                L::store(out.as_mut_ptr().add(i), map.at::<L>(old, values));
                i += L::WIDTH;
            }
            if i < n {
                let mut values = [L::splat(0.0); N];
                for (value, x) in values.iter_mut().zip(x) {
                    *value = load_part::<L>(&x[i..], 0.0);
                }
                let old = load_part::<L>(&out[i..], 0.0);
                store_part::<L>(&mut out[i..], map.at::<L>(old, values));
            }
        }
    }
}

impl Kernels {
    /// `out[i] = map(out[i], x[0][i], x[1][i], ...)`; all slices have the same length.
    #[inline]
    pub(crate) fn map<M: Map<N>, const N: usize>(&self, map: M, x: [&[f32]; N], out: &mut [f32]) {
        self.run(Elementwise { map, x, out });
    }
}

/// Declares operations: name, factors, old value and others, result.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident { $($field:ident),* } |$old:pat_param, $x:pat_param| $n:literal
        => |$l:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name { $(pub(crate) $field: f32),* }

        impl Map<$n> for $name {
            #[inline(always)]
            unsafe fn at<$l: MathLanes>(self, $old: $l::V, $x: [$l::V; $n]) -> $l::V {
                // SAFETY: passed on from the caller.
                unsafe {
                    $(let $field = $l::splat(self.$field);)*
                    $result
                }
            }
        }
    )*};
}

maps! {
    /// `silu(scale * old)`.
    Silu { scale } |old, _| 0 => |L| silu::<L>(L::mul(old, scale));
    /// `silu(old) * x`.
    SwiGlu {} |old, [x]| 1 => |L| L::mul(silu::<L>(old), x);
    /// `factor * sigmoid(scale * old)`.
    Sigmoid { factor, scale } |old, _| 0 => |L| L::mul(factor, sigmoid::<L>(L::mul(old, scale)));
    /// `old * sigmoid(gate)`.
    Gate {} |old, [gate]| 1 => |L| L::mul(old, sigmoid::<L>(gate));
    /// `sigmoid(gate) * x`.
    Gated {} |_, [gate, x]| 2 => |L| L::mul(sigmoid::<L>(gate), x);
    /// `old + sigmoid(gate) * x`.
    AddGated {} |old, [gate, x]| 2 => |L| L::fma(sigmoid::<L>(gate), x, old);
    /// `scale * x`.
    Scale { scale } |_, [x]| 1 => |L| L::mul(scale, x);
    /// `scale * old`.
    ScaleOld { scale } |old, _| 0 => |L| L::mul(scale, old);
    /// `scale * x * weight`: a norm whose scale is known.
    Normalise { scale } |_, [x, weight]| 2 => |L| L::mul(L::mul(x, scale), weight);
    /// `scale * old * weight * sigmoid(gate)`: a norm, gated.
    GatedNormalise { scale } |old, [weight, gate]| 2
        => |L| L::mul(L::mul(L::mul(old, scale), weight), sigmoid::<L>(gate));
    /// `old + max(0, x)`; a NaN stays.
    AddRelu {} |old, [x]| 1 => |L| L::add(old, L::max(L::splat(0.0), x));
    /// `old + factor * x`.
    AddScaled { factor } |old, [x]| 1 => |L| L::fma(factor, x, old);
    /// `old + (factor * x + y)`.
    AddScaledAnd { factor } |old, [x, y]| 2 => |L| L::add(old, L::fma(factor, x, y));
    /// `tap * x`.
    Tap {} |_, [tap, x]| 2 => |L| L::mul(tap, x);
    /// `old + tap * x`.
    AddTap {} |old, [tap, x]| 2 => |L| L::fma(tap, x, old);
    /// The silu of the sum of four taps, each followed by what it multiplies.
    SiluOfFourTaps {} |_, [a, x, b, y, c, z, d, w]| 8
        => |L| silu::<L>(L::fma(d, w, L::fma(c, z, L::fma(b, y, L::mul(a, x)))));
}
