//! The packed 6-bit scales and minima of eight groups in Q4_K and Q5_K.

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
