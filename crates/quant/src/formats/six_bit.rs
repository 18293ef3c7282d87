//! What Q4_K and Q5_K share: eight groups of 32 with 6-bit scales and minima.

use crate::Half;
use crate::encode::{Source, mean_square};
use crate::rounding::{reciprocal_or_zero, round_even};
use crate::search::{
    AffineFit, IMPORTANCE_STEPS, Steps, fit_affine, fit_positive, importance_weights,
};

/// The scales and the minima of the eight groups, 0..=63.
#[inline(always)]
pub(crate) fn unpack(s: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = s[j] & 63;
        minima[j] = s[j + 4] & 63;
        scales[j + 4] = (s[j + 8] & 15) | ((s[j] >> 6) << 4);
        minima[j + 4] = (s[j + 8] >> 4) | ((s[j + 4] >> 6) << 4);
    }
    (scales, minima)
}

/// The inverse of [`unpack`]; values above 63 are not allowed.
pub(crate) fn pack(scales: &[u8; 8], minima: &[u8; 8]) -> [u8; 12] {
    let mut s = [0; 12];
    for j in 0..4 {
        s[j] = scales[j] | ((scales[j + 4] >> 4) << 6);
        s[j + 4] = minima[j] | ((minima[j + 4] >> 4) << 6);
        s[j + 8] = (scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4);
    }
    s
}

/// `unit` times each code.
#[inline(always)]
pub(crate) fn scaled(unit: f32, codes: [u8; 8]) -> [f32; 8] {
    let mut values = [0.0; 8];
    for (value, code) in values.iter_mut().zip(codes) {
        *value = unit * f32::from(code);
    }
    values
}

/// An encoded block before its codes are packed.
pub(crate) struct Encoded {
    pub(crate) d: Half,
    pub(crate) dmin: Half,
    pub(crate) scales: [u8; 12],
    pub(crate) codes: [u8; 256],
}

/// Fits every group, rounds the scales and the minima to 6 bits, and recomputes the codes with
/// what these decode to.
pub(crate) fn encode(source: &Source<'_>, max_code: u8, plain: Steps) -> Encoded {
    let groups = source.values.as_chunks::<32>().0;
    let (mut scales, mut minima, mut sum_w) = ([0.0; 8], [0.0; 8], [0.0; 8]);
    let mut codes = [0; 256];
    for (j, x) in groups.iter().enumerate() {
        let (weights, steps) = match source.importance {
            None => (plain_weights(x), plain),
            Some(importance) => {
                let mean_square = 2.0 * mean_square(source.values);
                let importance = &importance[32 * j..32 * (j + 1)];
                (importance_weights(x, importance, mean_square), IMPORTANCE_STEPS)
            }
        };
        let AffineFit { scale, min, codes: fitted } = fit_affine(x, &weights, max_code, steps);
        (scales[j], minima[j]) = (scale, -min);
        sum_w[j] = weights.iter().fold(0.0, |sum, w| sum + w);
        codes[32 * j..32 * (j + 1)].copy_from_slice(&fitted);
    }
    let quantise = |values: &[f32; 8]| match source.importance {
        None => round_to_largest(values),
        Some(_) => {
            let fit = fit_positive(values, &sum_w, 63);
            (fit.unit, fit.codes)
        }
    };
    let (d, scales) = quantise(&scales);
    let (dmin, minima) = quantise(&minima);
    let (d, dmin) = (Half::from_f32(d), Half::from_f32(dmin));
    for (j, (x, codes)) in groups.iter().zip(codes.as_chunks_mut::<32>().0).enumerate() {
        let step = d.to_f32() * f32::from(scales[j]);
        let min = dmin.to_f32() * f32::from(minima[j]);
        if step != 0.0 {
            *codes = x.map(|x| round_even((x + min) / step).clamp(0, i32::from(max_code)) as u8);
        }
    }
    Encoded { d, dmin, scales: pack(&scales, &minima), codes }
}

/// Root mean square of the group plus the magnitude.
fn plain_weights(x: &[f32; 32]) -> [f32; 32] {
    let root = mean_square(x).sqrt();
    x.map(|x| root + x.abs())
}

/// The unit that gives the largest value (all are at least 0) the code 63, and the codes.
fn round_to_largest(values: &[f32; 8]) -> (f32, [u8; 8]) {
    let max = values.iter().fold(0.0, |max, &v| if v > max { v } else { max });
    let factor = reciprocal_or_zero(max / 63.0);
    (max / 63.0, values.map(|v| round_even(factor * v).clamp(0, 63) as u8))
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};

    #[test]
    fn pack_inverts_unpack() {
        let scales = [0, 63, 17, 42, 63, 0, 33, 16];
        let minima = [63, 1, 2, 48, 15, 31, 63, 5];
        assert_eq!(unpack(&pack(&scales, &minima)), (scales, minima));
    }
}
