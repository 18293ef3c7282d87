//! The fixed tables that formats refer to: grids, value tables and sign patterns.
//!
//! The grids are data from `codebooks/` (raw rows, no header); what has a formula is computed.

/// Reads a table of N rows of R bytes.
const fn grid<const R: usize, const N: usize>(bytes: &'static [u8]) -> &'static [[u8; R]; N] {
    match bytes.as_chunks::<R>().0.first_chunk::<N>() {
        Some(rows) if bytes.len() == R * N => rows,
        _ => panic!("codebook file has the wrong size"),
    }
}

/// Magnitudes of IQ2_XXS by 8-bit index.
pub static IQ2XXS_GRID: &[[u8; 8]; 256] = grid(include_bytes!("../codebooks/iq2xxs_grid.u8"));
/// Magnitudes of IQ2_XS by 9-bit index.
pub static IQ2XS_GRID: &[[u8; 8]; 512] = grid(include_bytes!("../codebooks/iq2xs_grid.u8"));
/// Magnitudes of IQ2_S by 10-bit index.
pub static IQ2S_GRID: &[[u8; 8]; 1024] = grid(include_bytes!("../codebooks/iq2s_grid.u8"));
/// Magnitudes of IQ3_XXS by 8-bit index.
pub static IQ3XXS_GRID: &[[u8; 4]; 256] = grid(include_bytes!("../codebooks/iq3xxs_grid.u8"));
/// Magnitudes of IQ3_S by 9-bit index.
pub static IQ3S_GRID: &[[u8; 4]; 512] = grid(include_bytes!("../codebooks/iq3s_grid.u8"));
/// Values -1, 0, 1 of IQ1_S and IQ1_M by 11-bit index, as the bytes of i8.
pub static IQ1S_GRID: &[[u8; 8]; 2048] = grid(include_bytes!("../codebooks/iq1s_grid.i8"));

/// Values of the 4-bit codes of IQ4_NL and IQ4_XS, ascending.
pub static KVALUES_IQ4NL: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Doubled E2M1 values of the 4-bit codes of MXFP4 and NVFP4. Code 8 ("minus zero") is plain zero.
pub static KVALUES_FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Sign bytes as masks: byte j of row i is 0xFF if bit j of i is set (element j is negative).
pub static SIGN_MASKS: [[u8; 8]; 256] = sign_masks();

/// Sign masks by the 7-bit sign index of IQ2_XXS, IQ2_XS and IQ3_XXS; see [`ksigns`].
pub static KSIGN_MASKS: [[u8; 8]; 128] = ksign_masks();

/// Half of the unsigned E4M3 value of each NVFP4 scale byte.
pub static UE4M3_HALF: [f32; 256] = ue4m3_half_table();

/// The sign byte of a 7-bit sign index: bit 7 makes the number of negative elements even.
#[inline(always)]
#[must_use]
pub const fn ksigns(index: u8) -> u8 {
    index | ((index.count_ones() as u8 & 1) << 7)
}

/// Half of the E8M0 scale `e`, 2^(e-128): MXFP4's table holds doubled values. 0 and 1 give f32
/// denormals; 255 is reserved and gives 2^127 here.
#[inline(always)]
#[must_use]
pub const fn e8m0_half(e: u8) -> f32 {
    let denormal = 0x0020_0000 << (e & 1);
    let normal = (e as u32).wrapping_sub(1) << 23;
    f32::from_bits(if e < 2 { denormal } else { normal })
}

const fn sign_masks() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut i = 0;
    while i < 256 {
        let mut j = 0;
        while j < 8 {
            table[i][j] = if (i >> j) & 1 == 1 { 0xFF } else { 0 };
            j += 1;
        }
        i += 1;
    }
    table
}

const fn ksign_masks() -> [[u8; 8]; 128] {
    let all = sign_masks();
    let mut table = [[0; 8]; 128];
    let mut i = 0;
    while i < 128 {
        table[i] = all[ksigns(i as u8) as usize];
        i += 1;
    }
    table
}

const fn ue4m3_half_table() -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = ue4m3_half(i as u8);
        i += 1;
    }
    table
}

/// Bit 7 is ignored; 0x7F reads as zero, but 0xFF does not (no encoder writes it).
const fn ue4m3_half(byte: u8) -> f32 {
    let exponent = (byte >> 3) & 15;
    let mantissa = (byte & 7) as f32;
    if byte == 0x7F {
        0.0
    } else if exponent == 0 {
        mantissa / 1024.0
    } else {
        // 2^(exponent - 7) / 2 / 8, built from its exponent field.
        (8.0 + mantissa) * f32::from_bits((127 - 11 + exponent as u32) << 23)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
    }

    #[test]
    fn formulas_agree_with_the_tables() {
        let signs = include_bytes!("../codebooks/ksigns_iq2xs.u8");
        assert!(signs.iter().enumerate().all(|(i, &s)| ksigns(i as u8) == s));
        let e8m0 = floats(include_bytes!("../codebooks/e8m0_half.f32"));
        // The reserved 255 has no value to agree on.
        for (e, &bits) in e8m0.iter().enumerate().take(255) {
            assert_eq!(e8m0_half(e as u8).to_bits(), bits, "e = {e}");
        }
        let ue4m3 = floats(include_bytes!("../codebooks/ue4m3_half.f32"));
        for (x, &bits) in ue4m3.iter().enumerate() {
            assert_eq!(UE4M3_HALF[x].to_bits(), bits, "scale byte {x:#04x}");
        }
        let nl = include_bytes!("../codebooks/kvalues_iq4nl.i8").map(|b| b as i8);
        let fp4 = include_bytes!("../codebooks/kvalues_fp4_e2m1x2.i8").map(|b| b as i8);
        assert_eq!((nl, fp4), (KVALUES_IQ4NL, KVALUES_FP4));
    }
}
