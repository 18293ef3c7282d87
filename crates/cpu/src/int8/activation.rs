//! Activations brought to 8 bits: what a product needs of 256 values of a row lies in one block.

use super::{CHUNK, GROUP};

/// Groups in a block.
const GROUPS: usize = CHUNK / GROUP;

/// 256 values of a row of activations: `value = scale[i / 32] * q[i]`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct ActBlock {
    pub(crate) q: [i8; CHUNK],
    pub(crate) scale: [f32; GROUPS],
    /// Sums of `q` over 32 values, times -128: what codes stored with a bias of 128 add too much,
    /// and what a format's offsets are multiplied with.
    pub(crate) bias32: [i32; GROUPS],
    /// The same over 16 values.
    pub(crate) bias16: [i32; 2 * GROUPS],
}

impl ActBlock {
    /// All values zero.
    pub(crate) const ZERO: Self =
        Self { q: [0; CHUNK], scale: [0.0; GROUPS], bias32: [0; GROUPS], bias16: [0; 2 * GROUPS] };
}

impl Default for ActBlock {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Rows of quantised activations, chunk by chunk: block `chunk * rows + row`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acts<'a> {
    pub(crate) blocks: &'a [ActBlock],
    pub(crate) rows: usize,
}

/// Magnitudes below this are taken as zero: the reciprocal of their scale could overflow.
pub(crate) const NEGLIGIBLE: f32 = 1e-30;

/// 1.5 * 2^23: what is added to it leaves its nearest integer in the low bits of the mantissa.
pub(crate) const SHIFT: f32 = 12_582_912.0;

/// Quantises up to 256 values, a multiple of 32, into `block`.
///
/// The scale is the largest magnitude of a group over 127, codes round to nearest, ties to even: an
/// error of at most half a scale per value. A group with an infinite or NaN value gets the scale
/// NaN.
#[inline(always)]
pub(crate) fn quantise(x: &[f32], block: &mut ActBlock) {
    for (g, x) in x.as_chunks::<GROUP>().0.iter().enumerate() {
        // Magnitudes in the order of their bits; NaN above all.
        let largest = x.iter().map(|x| x.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        let largest = f32::from_bits(largest);
        let scale = if largest.is_finite() { largest / 127.0 } else { f32::NAN };
        let (scale, factor) =
            if largest < NEGLIGIBLE { (0.0, 0.0) } else { (scale, 127.0 / largest) };
        let mut rounded = [0; GROUP];
        for (rounded, x) in rounded.iter_mut().zip(x) {
            *rounded = round(x * factor);
        }
        let q: &mut [i8; GROUP] = &mut block.q.as_chunks_mut().0[g];
        for (q, rounded) in q.iter_mut().zip(rounded) {
            *q = rounded as i8;
        }
        let (low, high) = rounded.split_at(GROUP / 2);
        let sums = [low.iter().sum::<i32>(), high.iter().sum()];
        block.scale[g] = scale;
        block.bias32[g] = -128 * (sums[0] + sums[1]);
        for (h, sum) in sums.into_iter().enumerate() {
            block.bias16[2 * g + h] = -128 * sum;
        }
    }
}

/// The nearest integer of a value of magnitude up to 127, ties to even; anything in 8 bits for NaN.
///
/// The same code for every instruction set, and it vectorises.
#[inline(always)]
fn round(x: f32) -> i32 {
    // The sign-extended low byte: a group with NaN gets codes that fit, whatever they are.
    i32::from((x + SHIFT).to_bits() as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_nearest_and_sums_agree() {
        let x: Vec<f32> = (0..64).map(|i| ((i * 37) % 61) as f32 - 30.0).collect();
        let mut block = ActBlock::ZERO;
        quantise(&x, &mut block);
        for (i, x) in x.iter().enumerate() {
            let scale = block.scale[i / 32];
            let value = scale * f32::from(block.q[i]);
            // Half a step, and the rounding of the scale itself.
            assert!((value - x).abs() <= scale * 0.5001, "{i}: {value} for {x}");
        }
        for g in 0..2 {
            let sum: i32 = block.q[32 * g..][..32].iter().map(|&q| i32::from(q)).sum();
            assert_eq!(block.bias32[g], -128 * sum);
            assert_eq!(block.bias16[2 * g] + block.bias16[2 * g + 1], -128 * sum);
        }
    }

    #[test]
    fn zero_tiny_and_broken_groups() {
        let mut x = vec![0.0; 128];
        x[32] = 1e-40;
        x[64] = f32::INFINITY;
        x[96] = f32::NAN;
        let mut block = ActBlock::ZERO;
        quantise(&x, &mut block);
        assert_eq!(block.scale[..2], [0.0, 0.0]);
        assert!(block.q[..64].iter().all(|&q| q == 0));
        assert!(block.scale[2].is_nan() && block.scale[3].is_nan());
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!([round(2.5), round(3.5), round(-2.5), round(-127.0)], [2, 4, -2, -127]);
    }
}
