//! The reference dot product of a weight row with a quantised activation row.
//!
//! One approach for every packed format: an element is `scale * code + offset`, so a group's
//! share is `da * scale * (sum of code * activation code) + offset * (sum of activations)` with
//! the sums of codes exact in integers. Everything else is f64, so the result is the value that
//! faster implementations approximate, not one of them.

use crate::activation::Activation;
use crate::formats::{BF16, F16, F32, Q8_0, Q8_1, Q8_K};
use crate::registry::{PackedVisitor, row_blocks, with_packed};
use crate::{BlockFormat, Error, Packed, TensorType};

/// Dot product of a weight row of type `ty` with an activation row of the type's partner
/// ([`BlockFormat::DOT_PARTNER`]), both as stored bytes.
///
/// # Errors
/// [`Error::Unsupported`] for integer types, F64, Q8_1 and Q8_K as weights; [`Error::RowBytes`] or
/// [`Error::RowLength`] where the two are not rows of the same length.
pub fn dot(ty: TensorType, weights: &[u8], activation: &[u8]) -> Result<f64, Error> {
    struct Dot<'a>(&'a [u8], &'a [u8]);
    impl PackedVisitor for Dot<'_> {
        type Out = Result<f64, Error>;
        fn visit<W: Packed>(self) -> Self::Out {
            match W::DOT_PARTNER {
                TensorType::Q8_0 => packed_dot::<W, Q8_0>(self.0, self.1),
                TensorType::Q8_1 => packed_dot::<W, Q8_1>(self.0, self.1),
                _ => packed_dot::<W, Q8_K>(self.0, self.1),
            }
        }
    }
    let unsupported = Err(Error::Unsupported { ty, operation: "dot product" });
    match ty {
        TensorType::F32 => float_dot::<F32>(weights, activation),
        TensorType::F16 => float_dot::<F16>(weights, activation),
        TensorType::BF16 => float_dot::<BF16>(weights, activation),
        TensorType::Q8_1 | TensorType::Q8_K => unsupported,
        _ => with_packed(ty, Dot(weights, activation)).unwrap_or(unsupported),
    }
}

fn float_dot<F: BlockFormat>(weights: &[u8], activation: &[u8]) -> Result<f64, Error> {
    row_blocks::<F>(weights.len(), activation.len() / F::BYTES)?;
    row_blocks::<F>(activation.len(), weights.len() / F::BYTES)?;
    let (mut w, mut a) = ([0.0], [0.0]);
    let mut sum = 0.0;
    for (weight, activation) in
        weights.chunks_exact(F::BYTES).zip(activation.chunks_exact(F::BYTES))
    {
        F::decode(weight, &mut w);
        F::decode(activation, &mut a);
        sum += f64::from(w[0]) * f64::from(a[0]);
    }
    Ok(sum)
}

/// What the reference product needs of an activation block.
trait Partner: Activation {
    /// Sum of the activations whose codes are given: a whole block in Q8_1.
    fn value_sum(&self, codes: &[i8]) -> f64 {
        let sum: i32 = codes.iter().map(|&q| i32::from(q)).sum();
        f64::from(self.scales().as_ref()[0]) * f64::from(sum)
    }
}

impl Partner for Q8_0 {}
impl Partner for Q8_K {}
impl Partner for Q8_1 {
    /// The stored sum, which the format defines as the factor of the minimum.
    fn value_sum(&self, _codes: &[i8]) -> f64 {
        f64::from(self.s.to_f32())
    }
}

fn packed_dot<W: Packed, A: Partner>(weights: &[u8], activation: &[u8]) -> Result<f64, Error> {
    let elements = (activation.len() / A::BYTES).saturating_mul(A::ELEMENTS);
    row_blocks::<A>(activation.len(), elements)?;
    row_blocks::<W>(weights.len(), elements)?;
    let partners = A::BYTES * (W::ELEMENTS / A::ELEMENTS);
    let blocks = weights.chunks_exact(W::BYTES).zip(activation.chunks_exact(partners));
    Ok(blocks.map(|(w, a)| block_dot::<W, A>(bytemuck::from_bytes(w), a)).sum())
}

/// One weight block against the activation blocks beside it.
fn block_dot<W: Packed, A: Partner>(weight: &W, activations: &[u8]) -> f64 {
    let (codes, scales, offsets) = (weight.codes(), weight.scales(), weight.offsets());
    let step = W::GROUP.min(A::ELEMENTS);
    let mut sum = 0.0;
    for (b, activation) in activations.chunks_exact(A::BYTES).enumerate() {
        let activation: &A = bytemuck::from_bytes(activation);
        let activation_codes = activation.codes();
        let d = f64::from(activation.scales().as_ref()[0]);
        for (s, theirs) in activation_codes.as_ref().chunks_exact(step).enumerate() {
            let at = b * A::ELEMENTS + s * step;
            let ours = &codes.as_ref()[at..at + step];
            let group = at / W::GROUP;
            sum += d * f64::from(scales.as_ref()[group]) * f64::from(integer_dot(ours, theirs));
            if let Some(offsets) = &offsets {
                let offset = f64::from(offsets.as_ref()[group]);
                sum += offset * activation.value_sum(theirs);
            }
        }
    }
    sum
}

/// Exact: at most 256 products of two 8-bit codes.
fn integer_dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}
