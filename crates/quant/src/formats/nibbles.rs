//! The nibble order of the 32-element formats: byte k carries elements k (low) and k + 16 (high).

/// The 32 codes of 16 bytes, 0..=15.
#[inline(always)]
pub(crate) fn unpack(bytes: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (k, byte) in bytes.iter().enumerate() {
        codes[k] = byte & 15;
        codes[k + 16] = byte >> 4;
    }
    codes
}

/// The inverse of [`unpack`]; codes above 15 are not allowed.
#[inline(always)]
pub(crate) fn pack(codes: &[u8; 32]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (k, byte) in bytes.iter_mut().enumerate() {
        *byte = codes[k] | (codes[k + 16] << 4);
    }
    bytes
}

/// The 32 codes of 16 bytes and a fifth bit each, 0..=31.
#[inline(always)]
pub(crate) fn unpack_5(bytes: &[u8; 16], fifth: u32) -> [u8; 32] {
    let mut codes = unpack(bytes);
    for (j, code) in codes.iter_mut().enumerate() {
        *code |= ((fifth >> j) as u8 & 1) << 4;
    }
    codes
}

/// The inverse of [`unpack_5`]; codes above 31 are not allowed.
#[inline(always)]
pub(crate) fn pack_5(codes: &[u8; 32]) -> ([u8; 16], u32) {
    let mut fifth = 0;
    for (j, code) in codes.iter().enumerate() {
        fifth |= u32::from(code >> 4) << j;
    }
    (pack(&codes.map(|code| code & 15)), fifth)
}

/// The values of 32 codes in a table of 16.
#[inline(always)]
pub(crate) fn look_up(table: &[i8; 16], bytes: &[u8; 16]) -> [i8; 32] {
    let mut values = [0; 32];
    for (k, byte) in bytes.iter().enumerate() {
        values[k] = table[usize::from(byte & 15)];
        values[k + 16] = table[usize::from(byte >> 4)];
    }
    values
}
