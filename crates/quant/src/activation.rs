//! Activation quantisers: the partner side of the integer dot products.
//!
//! These are the scalar rules of docs/formats.md section 3, the definition that vector code is
//! held against. A block with an infinite or NaN value gets a NaN scale: the fault then shows in
//! every product with that block instead of being rounded away.

use crate::formats::{Q8_0, Q8_1, Q8_K};
use crate::registry::row_blocks;
use crate::rounding::{peak_magnitude, reciprocal_or_zero, round_away, round_even, signed_peak};
use crate::{Error, Half, Le16, Le32, Packed, TensorType};

/// A block type to which activations can be quantised.
pub(crate) trait Activation: Packed {
    /// Quantises the values of one block; `values` has `ELEMENTS` of them.
    fn quantise(values: &[f32]) -> Self;
}

/// Quantises a row of activations to Q8_0, Q8_1 or Q8_K.
///
/// # Errors
/// [`Error::Unsupported`] for another type; [`Error::RowLength`] or [`Error::RowBytes`] where
/// `values` and `out` are not the same whole number of blocks. Nothing is written then.
pub fn quantise_activation(ty: TensorType, values: &[f32], out: &mut [u8]) -> Result<(), Error> {
    match ty {
        TensorType::Q8_0 => quantise_row::<Q8_0>(values, out),
        TensorType::Q8_1 => quantise_row::<Q8_1>(values, out),
        TensorType::Q8_K => quantise_row::<Q8_K>(values, out),
        _ => Err(Error::Unsupported { ty, operation: "activation quantiser" }),
    }
}

fn quantise_row<A: Activation>(values: &[f32], out: &mut [u8]) -> Result<(), Error> {
    row_blocks::<A>(out.len(), values.len())?;
    for (values, block) in values.chunks_exact(A::ELEMENTS).zip(out.chunks_exact_mut(A::BYTES)) {
        block.copy_from_slice(bytemuck::bytes_of(&A::quantise(values)));
    }
    Ok(())
}

/// Codes of 32 values and the f32 scale before it is rounded.
fn eight_bits(values: &[f32]) -> ([i8; 32], f32) {
    let mut codes = [0; 32];
    if !all_finite(values) {
        return (codes, f32::NAN);
    }
    let d = peak_magnitude(values) / 127.0;
    let factor = reciprocal_or_zero(d);
    for (code, x) in codes.iter_mut().zip(values) {
        *code = round_away(x * factor) as i8;
    }
    (codes, d)
}

fn all_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |finite, v| finite & v.is_finite())
}

impl Activation for Q8_0 {
    fn quantise(values: &[f32]) -> Self {
        let (qs, d) = eight_bits(values);
        Self { d: Half::from_f32(d), qs }
    }
}

impl Activation for Q8_1 {
    fn quantise(values: &[f32]) -> Self {
        let (qs, d) = eight_bits(values);
        let sum: i32 = qs.iter().map(|&q| i32::from(q)).sum();
        Self { d: Half::from_f32(d), s: Half::from_f32(d * sum as f32), qs }
    }
}

impl Activation for Q8_K {
    /// The element of largest magnitude becomes -127, so the scale has the opposite sign of it.
    /// An all-zero block has zero codes, sums and scale.
    fn quantise(values: &[f32]) -> Self {
        let mut block = Self { d: Le32::new(0), qs: [0; 256], sums: [Le16::new(0); 16] };
        if !all_finite(values) {
            block.d = Le32::new(f32::NAN.to_bits());
            return block;
        }
        let factor = -127.0 / signed_peak(values);
        if !factor.is_finite() {
            return block;
        }
        for (code, x) in block.qs.iter_mut().zip(values) {
            *code = round_even(factor * x).min(127) as i8;
        }
        for (sum, codes) in block.sums.iter_mut().zip(block.qs.as_chunks::<16>().0) {
            *sum = Le16::new(codes.iter().map(|&q| i16::from(q)).sum::<i16>() as u16);
        }
        block.d = Le32::new((1.0 / factor).to_bits());
        block
    }
}
