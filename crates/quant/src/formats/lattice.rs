//! What the grid formats (IQ2, IQ3) share: grid rows with signs, and their group scales.

/// Magnitudes with signs: `-m` where the mask byte is 0xFF, `m` where it is 0.
#[inline(always)]
pub(crate) fn signed(magnitudes: &[u8; 256], masks: &[u8; 256]) -> [i8; 256] {
    let mut codes = [0; 256];
    for ((code, magnitude), mask) in codes.iter_mut().zip(magnitudes).zip(masks) {
        *code = (magnitude ^ mask).wrapping_sub(*mask) as i8;
    }
    codes
}

/// Copies a row of R bytes to position `index` of a block of 256.
#[inline(always)]
pub(crate) fn place<const R: usize>(block: &mut [u8; 256], index: usize, row: &[u8; R]) {
    block[R * index..R * (index + 1)].copy_from_slice(row);
}

/// `(d * (0.5 + s)) * unit` for the scale codes s of 4 bits.
#[inline(always)]
pub(crate) fn half_step_scale(d: f32, s: u32, unit: f32) -> f32 {
    (d * (0.5 + s as i32 as f32)) * unit
}

/// The 16 scales of IQ2_XS and IQ2_S: one byte per 32 elements, low nibble first.
#[inline(always)]
pub(crate) fn nibble_scales(d: f32, bytes: &[u8; 8]) -> [f32; 16] {
    let mut scales = [0.0; 16];
    for (b, byte) in bytes.iter().enumerate() {
        scales[2 * b] = half_step_scale(d, u32::from(byte & 15), 0.25);
        scales[2 * b + 1] = half_step_scale(d, u32::from(byte >> 4), 0.25);
    }
    scales
}
