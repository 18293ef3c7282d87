//! How far a product may be from the exact one.
//!
//! Let a weight row have elements `scale * code + offset`, and let
//! `size = |scale * code| + |offset|`, which is `|w|` where the format has no offsets. A device may
//! add up the two parts separately, so errors are relative to `size`. With `u = 2^-24`, the largest
//! relative error of one rounding, the bound on `w . x` is the sum of three parts:
//!
//! ```text
//! summation     (n/4 + 16) * u * sum of size * (|x| + step)
//! 8 bits        sum of size * step                      step = amax/254 * (1 + 2^-13), or 0 in f32
//! underflow     2^-112 * (n + sum of size)
//! ```
//!
//! *Summation.* A sum of n products in at least 4 lanes takes at most `n/4` additions in a row and
//! a few more to join the lanes. With the roundings of element, product and scales, each product
//! goes through at most `n/4 + 16` roundings on its way into the sum.
//!
//! *Activations of 8 bits.* A device may replace x by `d * code`, with one f32 scale `d = amax/127`
//! for each 32 values of a row, amax the largest magnitude of them, and `|code| <= 127` the nearest
//! integer to `x/d`. That is an error of at most half a step, `d/2 = amax/254`, per value. The
//! roundings of d, of its reciprocal and of the product with it (3u of at most 127, under 2^-15 of
//! a code) may move what is nearly a tie to the other side, hence `1 + 2^-13`. The bound adds them
//! up as if all had one sign, which holds for any input. Where d is no normal number, its
//! reciprocal may be infinite, so the group may vanish: `step = amax`.
//!
//! *Underflow.* Denormal results may become zero: `2^-126` per product, `127 * 127 < 2^14` times
//! that where the product of two scales is what vanishes, and as much per weight where a denormal
//! x does.
//!
//! In the usual case errors cancel and stay far below this, so a fault of a few parts in a thousand
//! may pass in long rows. [`Input::EightBit`](crate::Input::EightBit) is there to see the rest: a
//! wrong code, scale or group is a fault of its own size, not of a rounding.

use gguf::TensorType;
use kernels::reference::Reference;
use kernels::{Activations, Gemv, Weight};
use quant::{Packed, PackedVisitor};

/// Values of a row that share a scale when activations are brought to 8 bits.
pub const INT8_GROUP: usize = 32;

/// How far a device may be off, in words, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The bound on a product in f32.
    Product,
    /// The bound on a product with activations of 8 bits.
    Product8,
    /// A share of the largest value.
    Share,
    /// The same where gates are products with activations of 8 bits.
    Share8,
    /// The same where keys and values may be rounded to a neighbouring code.
    ShareCodes,
    /// Not at all.
    Exact,
}

impl Bound {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "product f32",
            Self::Product8 => "product int8",
            Self::Share => "share",
            Self::Share8 => "share int8",
            Self::ShareCodes => "share codes",
            Self::Exact => "exact",
        }
    }

    /// What it says.
    pub fn statement(self) -> &'static str {
        match self {
            Self::Product => {
                "n products take at most n/4 + 16 roundings of 2^-24 each into the sum of \
                 |weight * activation|; denormal parts may become zero"
            }
            Self::Product8 => {
                "as product f32, and each activation may be off by half a step, 1/254 of the \
                 largest of its 32; not on inputs that 8 bits hold exactly"
            }
            Self::Share => "2e-5 of the largest value of the output",
            Self::Share8 => {
                "as share, and what activations of 8 bits may change in the products of the gates"
            }
            Self::ShareCodes => {
                "as share, and what keys and values may change that are rounded to the \
                 neighbouring code; the chosen blocks exactly"
            }
            Self::Exact => "the same result",
        }
    }
}

impl serde::Serialize for Bound {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// `|scale * code| + |offset|` of every element of weight row `row`.
pub(crate) fn sizes(weight: &Weight, row: usize) -> Vec<f64> {
    struct Sizes<'a>(&'a [u8]);
    impl PackedVisitor for Sizes<'_> {
        type Out = Vec<f64>;
        fn visit<F: Packed>(self) -> Vec<f64> {
            self.0.chunks_exact(F::BYTES).flat_map(block_sizes::<F>).collect()
        }
    }
    let plain = || {
        let mut values = vec![0.0; weight.n_in()];
        weight.decode_row(row, &mut values);
        values.iter().map(|w| f64::from(w.abs())).collect()
    };
    match weight.ty() {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => plain(),
        ty => quant::with_packed(ty, Sizes(weight.row(row))).unwrap_or_else(plain),
    }
}

fn block_sizes<F: Packed>(block: &[u8]) -> Vec<f64> {
    let block: &F = bytemuck::from_bytes(block);
    let (codes, scales, offsets) = (block.codes(), block.scales(), block.offsets());
    let size = |(i, &code): (usize, &i8)| {
        let group = i / F::GROUP;
        let offset = offsets.as_ref().map_or(0.0, |offsets| offsets.as_ref()[group]);
        f64::from((scales.as_ref()[group] * f32::from(code)).abs()) + f64::from(offset.abs())
    };
    codes.as_ref().iter().enumerate().map(size).collect()
}

/// The largest error that bringing the 32 (or fewer) values `x` to 8 bits makes in one of them.
fn rounding_step(x: &[f32]) -> f64 {
    let amax = f64::from(x.iter().fold(0f32, |m, x| m.max(x.abs())));
    if amax / 127.0 < f64::from(f32::MIN_POSITIVE) {
        amax
    } else {
        amax / 254.0 * (1.0 + 2f64.powi(-13))
    }
}

/// A row of activations with what its values may be off by before the product is formed.
#[derive(Clone, Debug)]
pub(crate) struct Inexact<'a> {
    x: &'a [f32],
    /// Per value.
    off: Vec<f64>,
}

impl<'a> Inexact<'a> {
    /// `x`, known exactly, as a matrix with these activations sees it.
    pub(crate) fn new(x: &'a [f32], activations: Activations) -> Self {
        Self::with_error(x, &[], activations)
    }

    /// The same where the value `i` is itself computed and up to `errors[i]` off; none if `errors`
    /// is empty.
    pub(crate) fn with_error(x: &'a [f32], errors: &[f64], activations: Activations) -> Self {
        let mut off = errors.to_vec();
        off.resize(x.len(), 0.0);
        if activations == Activations::Int8 {
            for (x, off) in x.chunks(INT8_GROUP).zip(off.chunks_mut(INT8_GROUP)) {
                let most = off.iter().fold(0f64, |m, e| m.max(*e));
                // The largest value may be off too, and the step with it.
                let step = rounding_step(x) + most / 254.0 * 1.001;
                off.iter_mut().for_each(|off| *off += step);
            }
        }
        Self { x, off }
    }

    /// The bound on the error of the product with a weight row of the given [`sizes`].
    pub(crate) fn product_bound(&self, sizes: &[f64]) -> f64 {
        let (mut inexact, mut total, mut all_sizes) = (0.0, 0.0, 0.0);
        for ((&size, &x), &off) in sizes.iter().zip(self.x).zip(&self.off) {
            inexact += size * off;
            total += size * (f64::from(x.abs()) + off);
            all_sizes += size;
        }
        let n = sizes.len() as f64;
        let roundings = (n / 4.0 + 16.0) * 2f64.powi(-24);
        let underflow = 2f64.powi(-126 + 14) * (n + all_sizes);
        inexact + roundings * total + underflow
    }
}

/// The reference's products of some weight rows with every row of activations, and their bounds.
#[derive(Clone, Debug)]
pub(crate) struct Products {
    weight_rows: usize,
    values: Vec<f32>,
    bounds: Vec<f64>,
}

impl Products {
    /// `x` is `[rows, n_in]`, seen with the given precision.
    pub(crate) fn new(weight: &Weight, x: &[f32], activations: Activations) -> Self {
        let (n_in, weight_rows) = (weight.n_in(), weight.n_out());
        let rows = x.len() / n_in;
        let mut values = vec![0.0; rows * weight_rows];
        Reference.matmul(weight, &x.to_vec(), rows, &mut values);
        let sizes: Vec<_> = (0..weight_rows).map(|row| sizes(weight, row)).collect();
        let seen = x.chunks_exact(n_in).map(|x| Inexact::new(x, activations));
        let bounds =
            seen.flat_map(|x| sizes.iter().map(|sizes| x.product_bound(sizes)).collect::<Vec<_>>());
        let bounds = bounds.collect();
        Self { weight_rows, values, bounds }
    }

    /// Value and bound for row `row` of the activations and row `weight_row` of a weight that
    /// repeats these rows.
    pub(crate) fn at(&self, row: usize, weight_row: usize) -> (f32, f64) {
        let i = row * self.weight_rows + weight_row % self.weight_rows;
        (self.values[i], self.bounds[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Rows, weight, weight_types};
    use crate::random::Random;
    use kernels::weight::WeightShape;

    #[test]
    fn sizes_are_at_least_the_weights() {
        for ty in weight_types() {
            let shape = WeightShape { n_in: 256, n_out: 4, experts: 1 };
            let weight = weight(ty, shape, Rows::Usual).unwrap();
            for row in 0..4 {
                let mut values = vec![0.0; 256];
                weight.decode_row(row, &mut values);
                let sizes = sizes(&weight, row);
                let off = values.iter().zip(&sizes).any(|(w, size)| {
                    // The element is rounded, its parts are not.
                    f64::from(w.abs()) > size * (1.0 + 1e-7)
                });
                assert!(!off && sizes.len() == 256, "{}", ty.name());
            }
        }
    }

    /// The rule that the bound is about, in its plainest form.
    fn eight_bits(x: &[f32]) -> Vec<f32> {
        let group = |x: &[f32]| {
            let d = x.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0;
            let by = if d == 0.0 { 0.0 } else { 1.0 / d };
            x.iter().map(|x| (x * by).round() * d).collect::<Vec<_>>()
        };
        x.chunks(INT8_GROUP).flat_map(group).collect()
    }

    #[test]
    fn rounding_activations_to_8_bits_stays_within_the_step_and_comes_near_it() {
        let mut random = Random::new(3);
        let mut worst = 0f64;
        for scale in [1e-30, 1.0, 1e4, 1e30] {
            for _ in 0..2000 {
                let x = random.values(INT8_GROUP, scale);
                let step = rounding_step(&x);
                for (x, rounded) in x.iter().zip(eight_bits(&x)) {
                    worst = worst.max((f64::from(*x) - f64::from(rounded)).abs() / step);
                }
            }
        }
        assert!(worst <= 1.0 && worst > 0.99, "{worst} of the step");
    }
}
